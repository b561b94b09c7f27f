"""Measure how fast the operator is against others: the same as ``maxpool-ort bench``, see its ``--help``.

What README shows was made by::

    python scripts/bench.py --json > scripts/bench.json
    python scripts/bench.py --load scripts/bench.json --plot scripts/bench.png
"""

import sys

from maxpool_ort.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
