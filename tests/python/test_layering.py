"""The build's include check: a stage may use only the stages it names."""

import subprocess


def check(checkout, root, folder, allowed):
    words = ["cmake", f"-DROOT={root}", f"-DFOLDER={folder}", f"-DALLOWED={allowed}", f"-DSTAMP={root}/stamp"]
    return subprocess.run(
        [*words, "-P", str(checkout / "cmake" / "CheckIncludes.cmake")], capture_output=True, text=True
    )


def tree(tmp_path, text):
    for folder in ("base", "graph", "plan"):
        (tmp_path / folder).mkdir()
    (tmp_path / "graph" / "deep").mkdir()
    (tmp_path / "graph" / "deep" / "a.cc").write_text(text)
    return tmp_path


def test_own_and_named_folders_and_libraries_are_fine(tmp_path, checkout):
    root = tree(tmp_path, '#include "graph/a.h"\n#include "base/b.h"\n#include <vector>\n#include <fmt/format.h>\n')
    result = check(checkout, root, "graph", "base")
    assert result.returncode == 0, result.stderr
    assert (root / "stamp").exists()


def test_a_later_stage_is_named(tmp_path, checkout):
    root = tree(tmp_path, '#include "base/b.h"\n  #  include "plan/plan.h"  // why\n')
    result = check(checkout, root, "graph", "base")
    assert result.returncode != 0
    assert 'a.cc: includes "plan/plan.h"' in " ".join(result.stderr.split())
    assert not (root / "stamp").exists()


def test_the_check_is_not_escaped_by_a_relative_path_or_brackets(tmp_path, checkout):
    root = tree(tmp_path, '#include "../../plan/plan.h"\n#include <plan/plan.h>\n')
    result = check(checkout, root, "graph", "base")
    assert result.returncode != 0
    assert result.stderr.count("plan/plan.h") == 2
