"""Writes stubs.cc and exports.map of one library of the phantom: for each name of api.txt which the objects do not define
a function that says "not modelled", or that launches if so marked; a table of all of them by name, and the linker's
list of what is visible."""

import argparse
import pathlib
import re
import subprocess
import sys

LINE = re.compile(r"^(\w+)((?: (?:12|13|void|null|launch|[0-9]{4,5}))*)$")


def read_api(path, generation):
    """{name: (what it returns, since which version)}, of those that this generation has."""
    functions = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].rstrip()
        if not line:
            continue
        match = LINE.match(line)
        if not match:
            sys.exit(f"{path}:{number}: expected NAME [12|13] [void|null|launch] [VERSION], found {line!r}")
        name, marks = match.group(1), match.group(2).split()
        if name in functions:
            sys.exit(f"{path}:{number}: {name} is there twice")
        generations = [mark for mark in marks if mark in ("12", "13")]
        if not generations or generation in generations:
            returns = next((mark for mark in marks if not mark.isdigit()), "status")
            since = next((mark for mark in marks if mark.isdigit() and mark not in generations), "0")
            functions[name] = (returns, since)
    return functions


def defined(nm, objects):
    listing = subprocess.run([nm, "-g", "--defined-only", *objects], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"^[0-9a-f]+ [TW] (\w+)$", listing, re.MULTILINE))


def stub(name, returns, status):
    if returns == "launch":
        call = name.replace("_v2", "")
        site = f'static ebbtide::phantom::CallSite site("{call}");'
        return f'int {name}(void* handle) {{ {site} return ebbtide::phantom::LaunchOfHandle(site, "{call}", handle); }}'
    report = f'ebbtide::phantom::NotModelled("{name}");'
    if returns == "void":
        return f"void {name}() {{ {report} }}"
    if returns == "null":
        return f"void* {name}() {{ {report} return nullptr; }}"
    return f"int {name}() {{ {report} return {status}; }}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--api", type=pathlib.Path, required=True)
    parser.add_argument("--generation", required=True)
    parser.add_argument("--status", required=True)
    parser.add_argument("--version-node", default="")
    parser.add_argument("--nm", required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("objects", nargs="+")
    arguments = parser.parse_args()

    api = read_api(arguments.api, arguments.generation)
    have = {name for name in defined(arguments.nm, arguments.objects) if not name.startswith("_Z")}
    if unknown := sorted(have - api.keys()):
        sys.exit(f"{arguments.api}: lacks {', '.join(unknown)}, which the sources define")

    missing = sorted(api.keys() - have)
    modelled = have | {name for name in missing if api[name][0] == "launch"}
    lines = ['#include "phantom/core/api.h"', '#define API extern "C" __attribute__((visibility("default")))']
    lines += ["API " + stub(name, api[name][0], arguments.status) for name in missing]
    lines += [f'extern "C" void {name}();' for name in sorted(have)]
    lines += ["namespace ebbtide::phantom {", "const ApiFunction kApiFunctions[] = {"]
    lines += [
        f'    {{"{name}", reinterpret_cast<void*>(&{name}), {since}, {str(name in modelled).lower()}}},'
        for name, (_, since) in sorted(api.items())
    ]
    lines += ["};", f"const int kApiFunctionCount = {len(api)};", "}  // namespace ebbtide::phantom"]
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "stubs.cc").write_text("\n".join(lines) + "\n")
    names = "".join(f"    {name};\n" for name in sorted(api))
    node = arguments.version_node + " " if arguments.version_node else ""
    (arguments.output / "exports.map").write_text(f"{node}{{\n  global:\n{names}  local: *;\n}};\n")


main()
