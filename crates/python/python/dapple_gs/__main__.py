"""`python -m dapple_gs`: the program `dapple`."""

import sys

from ._program import main

sys.exit(main())
