#!/usr/bin/env python3
"""Holds the documents against the tree: links, paths, make targets, environment variables and table rows that they name
exist (and the other way round, where a table promises to be documented), and every C program in them compiles.

Prints one line a fault and ends with exit code 1 when there is any.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("gen", "cache", "runtime", "tools", "templates", "tests", "docs", "scripts", "pkg", "include", "bench",
           "examples", "python", ".ci")
faults = []


def fault(path, line, text):
    faults.append(f"{path.relative_to(ROOT)}:{line}: {text}")


def documents():
    skipped = {".git", ".deps", "build"}
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        if path.suffix in (".md", ".scd") and not skipped & set(parts):
            yield path


def anchors(text):
    """The anchors of the headings, as the usual renderers make them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        word = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
        found.add(word.strip().replace(" ", "-"))
    return found


def check_links(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (path.parent / name).resolve() if name else path
            if not file.exists():
                fault(path, number, f"link to {target}, which is not there")
            elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
                fault(path, number, f"link to {target}: {file.name} has no such heading")


def check_paths(path, text):
    """Words in backquotes that look like a path of this tree."""
    for number, line in enumerate(text.splitlines(), 1):
        for word in re.findall(r"`([^`]+)`", line):
            if not re.fullmatch(r"[\w.\-/]+/[\w.\-/]*", word) or word.split("/")[0] not in FOLDERS:
                continue
            if not (ROOT / word).exists():
                fault(path, number, f"{word} is not there")


def check_targets(path, text, targets):
    for number, line in enumerate(text.splitlines(), 1):
        for word in re.findall(r"(?:`|^\s*(?:\$ )?(?:sudo )?)make ([a-z][a-z-]*)(?!/)\b", line):
            if word not in targets:
                fault(path, number, f"the Makefile has no target {word}")


def programs(path, text):
    """Fenced C and C++ blocks, with the line they start on."""
    for block in re.finditer(r"^```(c|cpp)\n(.*?)^```$", text, re.M | re.S):
        yield text[:block.start()].count("\n") + 2, block.group(1), block.group(2)


def header_programs(text):
    """Programs indented by five characters or more inside the header's first comment."""
    comment = text[:text.index("*/")]
    block = re.search(r"^ \*     #include.*?(?=^ \* {0,4}\S)", comment, re.M | re.S)
    if block:
        yield 1, "c", re.sub(r"^ \*(     )?", "", block.group(0), flags=re.M)


def compile_program(path, line, language, source):
    compiler = [os.environ.get("CC") or "cc", "-std=c11", "-D_POSIX_C_SOURCE=200809L"]
    if language == "cpp":
        compiler = [os.environ.get("CXX") or "g++", "-std=c++11"]
    command = compiler + ["-x", "c++" if language == "cpp" else "c", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                          "-I", str(ROOT / "include"), "-"]
    result = subprocess.run(command, input=source, text=True, capture_output=True, check=False)
    if result.returncode != 0:
        fault(path, line, "this program does not compile:\n" + result.stderr.rstrip())


def table_rows(name, macro, column):
    path = ROOT / name
    if not path.exists():
        return []
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
    rows = re.findall(rf"^{macro}\(((?:[^()\"]|\"[^\"]*\"|\([^()]*\))*)\)", text, re.M)
    return [next(iter(re.split(r",\s*", row)[column:]), "").strip('"') for row in rows]


def check_tables(texts):
    every_text = "\n".join(texts.values())
    for name, macro, column in (("gen/activations.def", "ACTIVATION", 2), ("gen/dtypes.def", "DTYPE", 2),
                                ("gen/archs.def", "ARCH", 1), ("gen/options.def", "OPTION", 0)):
        rows = table_rows(name, macro, column)
        if not rows:
            faults.append(f"{name}: no {macro} row was understood")
        for row in rows:
            if not re.search(rf"(?<!\w){re.escape(row)}(?!\w)", every_text):
                faults.append(f"{name}: no document names {row}")


def check_variables(texts):
    table = ROOT / "runtime/env.def"
    if not table.exists():
        faults.append("runtime/env.def: not there, so the GDPAJIT_ variables cannot be checked")
        return
    known = set(re.findall(r"GDPAJIT_[A-Z0-9_]+", table.read_text()))
    known |= set(re.findall(r"GDPAJIT_SETUP_[A-Z_]+", (ROOT / "scripts/setup.sh").read_text()))
    named = {}
    for path, text in texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            for word in re.findall(r"GDPAJIT_[A-Z0-9]+(?:_[A-Z0-9]+)*(?!\w|\.\d)", line):
                named.setdefault(word, (path, number))
    for word, (path, number) in sorted(named.items()):
        if word not in known:
            fault(path, number, f"{word} is not in runtime/env.def")
    for word in sorted(known - set(named)):
        faults.append(f"runtime/env.def: no document names {word}")


def main():
    makefile = (ROOT / "Makefile").read_text() + (ROOT / "tests/emu/emu.mk").read_text()
    targets = {name for line in re.findall(r"^([a-z][a-z\- ]*):(?!=)", makefile, re.M) for name in line.split()}
    texts = {path: path.read_text() for path in documents()}
    texts = {path: text.replace("\\_", "_") if path.suffix == ".scd" else text for path, text in texts.items()}
    header = ROOT / "include/gdpajit.h"
    count = 0
    for path, text in texts.items():
        if path.suffix == ".md":
            check_links(path, text)
            check_paths(path, text)
        check_targets(path, text, targets)
    for path, found in [(path, programs(path, text)) for path, text in texts.items()] + [
            (header, header_programs(header.read_text()))]:
        for line, language, source in found:
            compile_program(path, line, language, source)
            count += 1
    check_tables(texts)
    check_variables(texts)
    if faults:
        print("\n".join(faults), file=sys.stderr)
        print(f"docs-check: {len(faults)} faults", file=sys.stderr)
        return 1
    print(f"docs-check: clean ({len(texts)} documents, {count} programs)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
