"""Starts itself again with the drives' faults in front of the C library."""

import os
import sys

from faulty_trainings.drives import LIBRARY

if os.environ.get("LD_PRELOAD") != str(LIBRARY):
    environment = os.environ | {"LD_PRELOAD": str(LIBRARY)}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)

from faulty_trainings.command import main  # noqa: E402

sys.exit(main())
