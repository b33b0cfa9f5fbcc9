"""The form of the change log, which a release needs and every change keeps."""

from __future__ import annotations

import pytest
from tools import release

HEAD = "# Changes\n\n## [0.2.0] - 2026-11-22\n\n"
BREAKING, ADDED, FIXED = "### Breaking\n\n- a\n\n", "### Added\n\n- b\n\n", "### Fixed\n\n- c\n"


def test_the_change_log_has_the_version_of_the_product_and_its_changes_by_kind() -> None:
    text = (release.ROOT / "CHANGELOG.md").read_text()
    release.check_changes(text, release.own_version(), goes_on=True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + ADDED + BREAKING, "wanted: Breaking"),
        (HEAD + ADDED + FIXED, "wanted: Breaking"),
        (HEAD + BREAKING + FIXED + ADDED, "wanted: Breaking"),
        (HEAD + BREAKING + ADDED + ADDED, "wanted: Breaking"),
        (HEAD + BREAKING + "### Removed\n\n- d\n", "wanted: Breaking"),
        (HEAD + BREAKING + "### Added\n", "nothing under Added"),
        (HEAD.replace("0.2.0", "0.1.0") + BREAKING, "not with [0.2.0] - DATE"),
        (HEAD.replace(" - 2026-11-22", "") + BREAKING, "not with [0.2.0] - DATE"),
        ("# Changes\n\n## [Unreleased]\n\n- x\n\n## [0.2.0] - 2026-11-22\n", "to no version"),
        (HEAD + BREAKING + "## [Unreleased]\n\n### Added\n\n- x\n", "[Unreleased] below a version"),
        ("# Changes\n", "begins with"),
    ],
)
def test_what_is_wrong_with_a_change_log_is_named(text: str, said: str) -> None:
    with pytest.raises(release.ReleaseError) as refused:
        release.check_changes(text, "0.2.0")
    assert said in str(refused.value)


def test_changes_since_a_version_stand_above_it_and_are_no_release() -> None:
    version = HEAD.partition("\n")[2] + BREAKING + ADDED + FIXED
    release.check_changes(f"# Changes\n{version}", "0.2.0")
    release.check_changes(f"# Changes\n\n## [Unreleased]\n{version}", "0.2.0")
    later = f"# Changes\n\n## [Unreleased]\n\n{ADDED}{version}"
    release.check_changes(later, "0.2.0", goes_on=True)
    with pytest.raises(release.ReleaseError, match="to no version"):
        release.check_changes(later, "0.2.0")
