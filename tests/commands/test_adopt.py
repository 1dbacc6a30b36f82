"""`qioi adopt`: a component whose share somebody else has changed is taken up again."""

from __future__ import annotations

import pytest
from running import Site, end

pytestmark = pytest.mark.slow


def test_a_share_that_somebody_else_has_set_is_raised_again_and_put_back_in_the_end(site: Site) -> None:
    share = site.component("peer0")
    process = site.start()

    def value() -> int:
        return int(share.read_text())

    site.commit_until(lambda: value() > 1024)
    share.write_text("2000")
    site.commit_until(lambda: site.status()["components"][0]["taken"])  # type: ignore[index]
    done = site.qioi("adopt", "peer0", "--socket", str(site.socket))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "peer0: taken up again from the next period on, with what it has as its original\n"
    site.commit_until(lambda: value() > 2000)
    assert end(process)[0] == 0
    assert value() == 2000


def test_who_is_not_watched_is_refused(site: Site) -> None:
    site.component("peer0")
    process = site.start()
    done = site.qioi("adopt", "peer9", "--socket", str(site.socket))
    assert done.returncode == 1
    assert done.stderr.startswith("Error: component 'peer9': not watched: accepted are peer0")
    assert end(process)[0] == 0
