"""What is to run inside of the guest is not collected outside of it."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("QIOI_IN_GUEST") else ["inside"]
