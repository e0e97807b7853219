"""What the shells themselves offer to complete a line with."""

import os
import pty
import shutil
import subprocess

SHELLS = ("bash", "zsh", "fish")
# The line is completed as soon as it can be edited, and the shell left. What is offered goes through compadd; with -O, -A or -D it only asks.
ZSHRC = """
autoload -Uz compinit && compinit -u -D
source $ZDOTDIR/completion
compadd() {
  if (( ! ${@[(I)-(O|A|D)*]} )); then
    local -a offered
    builtin compadd -A offered "$@"
    print -rl -- $offered >>$ZDOTDIR/offered
  fi
  builtin compadd "$@"
}
complete-line() { BUFFER=$LINE; CURSOR=$#BUFFER; zle complete-word; exit }
zle -N zle-line-init complete-line
"""
BASH = """
source completion
read -ra COMP_WORDS <<<"$LINE"
[[ $LINE == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
cd "$FROM"
_ebbtide
printf '%s\\n' "${COMPREPLY[@]}"
"""


def is_installed(shell):
    return shutil.which(shell) is not None


def in_terminal(words, cwd, environment):
    """Runs to its end what asks for a terminal, and gives what it writes there."""
    ours, its = pty.openpty()
    process = subprocess.Popen(words, stdin=its, stdout=its, stderr=its, cwd=cwd, env=environment, start_new_session=True)
    os.close(its)
    written = b""
    try:
        while part := os.read(ours, 4096):
            written += part
    except OSError:  # the other end was closed
        pass
    os.close(ours)
    process.wait()
    return written.decode(errors="replace")


def offered(shell, script, line, folder):
    """The words for the last one of the line, sorted. `script`: what `ebbtide completion` printed; `folder`: where the shell is."""
    own = folder / f".{shell}"
    own.mkdir(exist_ok=True)
    (own / "completion").write_text(script)
    environment = {**os.environ, "LINE": line, "FROM": str(folder), "HOME": str(own), "XDG_CONFIG_HOME": str(own), "XDG_DATA_HOME": str(own)}
    if shell == "zsh":
        (own / ".zshrc").write_text(ZSHRC)
        (own / "offered").write_text("")
        said = in_terminal(["zsh", "-d", "-i"], folder, {**environment, "ZDOTDIR": str(own), "TERM": "dumb"})
        assert "_arguments:" not in said and "not found" not in said, said
        return sorted(set((own / "offered").read_text().split()))
    if shell == "fish":
        words = ["fish", "--no-config", "-c", f"source {own / 'completion'}; cd {folder}; complete -C $LINE"]
    else:
        words = ["bash", "--norc", "-c", BASH]
    done = subprocess.run(words, capture_output=True, text=True, cwd=own, env=environment)
    assert done.stderr == ""
    return sorted({word.partition("\t")[0] for word in done.stdout.splitlines()} - {""})
