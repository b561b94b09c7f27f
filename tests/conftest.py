"""What all tests share: quiet runtimes, and how many cases a property test draws."""

import os

from hypothesis import HealthCheck, Phase, settings
import onnxruntime

# ONNX Runtime warns about old opsets and logs each failed run on stderr; the tests look at exceptions instead.
onnxruntime.set_default_logger_severity(4)

settings.register_profile(
    "default",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
    derandomize="CI" in os.environ,  # the same cases on every run there: a change must not fail by another's chance
)
settings.register_profile("unshrunk", settings.get_profile("default"), phases=[Phase.explicit, Phase.generate])
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
