"""``python -m maxpool_ort`` is ``maxpool-ort``."""

import sys

from maxpool_ort.cli import main

sys.exit(main())
