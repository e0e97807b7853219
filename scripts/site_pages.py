"""What the documentation site needs beside docs/: pages that lie at the top of the checkout, and links that fit both places.

A hook of mkdocs (mkdocs.yml). Pages are written for people who read them in the checkout; here links to what is no page of the site
become plain text, and those to CONTRIBUTING.md and CHANGELOG.md lead to the pages made of them.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
MADE = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")


def slug(value, separator):
    """Anchors as they are in the checkout's viewer: `ebbtide plan` is #ebbtide-plan."""
    kept = re.sub(r"[^\w\- ]", "", value.lower())
    return kept.strip().replace(" ", separator)


def on_files(files, config):
    for name, source in MADE.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown, page, config, files):
    name = page.file.src_uri
    here = "" if name in MADE else posixpath.join("docs", posixpath.dirname(name))
    by_source = {source: made for made, source in MADE.items()}

    def relink(match):
        text, target = match.groups()
        path, hash_mark, anchor = target.partition("#")
        if not path or "://" in path:
            return match.group(0)
        whole = posixpath.normpath(posixpath.join(here, path))
        inside = by_source.get(whole) or (whole.removeprefix("docs/") if whole.startswith("docs/") else None)
        if inside is None or files.get_file_from_path(inside) is None:
            return text
        return f"[{text}]({posixpath.relpath(inside, posixpath.dirname(name) or '.')}{hash_mark}{anchor})"

    return _LINK.sub(relink, markdown)
