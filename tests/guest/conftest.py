"""What is to run inside of the guest is not collected outside of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "daemon"))

collect_ignore = [] if os.environ.get("QIOI_IN_GUEST") else ["inside"]
