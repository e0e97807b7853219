// Writes the scripts of bash, zsh and fish. Behind the "--" of dryrun and run the program's own completion goes on.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "cli/completion.h"

namespace ebbtide::cli {
namespace {

// In single quotes, for a shell.
std::string Quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string Joined(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, " ")); }

bool TakesListed(Values values) { return values == Values::kListed || values == Values::kListedOrFiles; }
bool TakesFiles(Values values) { return values == Values::kFiles || values == Values::kListedOrFiles; }

std::string NamesOf(const std::vector<VerbGrammar>& verbs) {
  std::vector<std::string> names;
  for (const VerbGrammar& verb : verbs) names.push_back(verb.name);
  return Joined(names);
}

// Those behind whose "--" stands a program.
std::vector<std::string> Running(const std::vector<VerbGrammar>& verbs) {
  std::vector<std::string> names;
  for (const VerbGrammar& verb : verbs) {
    if (RunsProgram(verb.name)) names.push_back(verb.name);
  }
  return names;
}

// --gpu and -o alike.
std::string BashCase(const Flag& flag) {
  return flag.short_name.empty() ? flag.long_name : flag.short_name + "|" + flag.long_name;
}

std::string BashVerb(const VerbGrammar& verb) {
  std::string flags, behind;
  for (const Flag& flag : verb.flags) {
    flags += (flags.empty() ? "" : " ") + flag.long_name;
    if (flag.values == Values::kNone) continue;
    behind += fmt::format("        {}) names={}; files={} ;;\n", BashCase(flag), Quoted(Joined(flag.listed)),
                          TakesFiles(flag.values) ? 1 : 0);
  }
  std::string names;
  bool files = false;
  for (const Word& word : verb.words) {
    names += Joined(word.listed);
    files = files || TakesFiles(word.values);
  }
  return fmt::format(
      "    {})\n      flags={}\n      case $previous in\n{}        *) names={}; files={} ;;\n      esac ;;\n",
      verb.name, Quoted(flags), behind, Quoted(names), files ? 1 : 0);
}

// A description within [...] of zsh's _arguments.
std::string ZshText(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string ZshAction(Values values, const std::vector<std::string>& listed) {
  switch (values) {
    case Values::kFiles: return "_files";
    case Values::kListed: return "(" + Joined(listed) + ")";
    case Values::kListedOrFiles: return " _ebbtide_name_or_file " + Joined(listed);
    case Values::kText:
    case Values::kNone: break;
  }
  return " ";
}

std::string ZshVerb(const VerbGrammar& verb) {
  std::string out = fmt::format("        {})\n", verb.name);
  if (RunsProgram(verb.name)) out += "          _ebbtide_program && return\n";
  out += "          _arguments -s -S";
  for (const Flag& flag : verb.flags) {
    const std::string name =
        flag.short_name.empty() ? flag.long_name : fmt::format("{{{},{}}}", flag.short_name, flag.long_name);
    std::string spec = fmt::format("[{}]", ZshText(flag.description));
    if (flag.values != Values::kNone) {
      spec += fmt::format(":{}:{}", ZshText(flag.value), ZshAction(flag.values, flag.listed));
    }
    out += fmt::format(" \\\n            '*'{}{}", name, Quoted(spec));
  }
  for (const Word& word : verb.words) {
    out += fmt::format(" \\\n            {}",
                       Quoted(fmt::format("*:{}:{}", ZshText(word.name), ZshAction(word.values, word.listed))));
  }
  return out + " ;;\n";
}

std::string FishValues(Values values, const std::vector<std::string>& listed) {
  if (values == Values::kNone) return "";
  std::string out = TakesFiles(values) ? " -r -F" : " -x";
  if (TakesListed(values)) out += " -a " + Quoted(Joined(listed));
  return out;
}

}  // namespace

std::string BashCompletion(const std::vector<VerbGrammar>& verbs) {
  std::string cases;
  for (const VerbGrammar& verb : verbs) cases += BashVerb(verb);
  return fmt::format(
      R"(# Completion of ebbtide for bash: ebbtide completion bash > ~/.local/share/bash-completion/completions/ebbtide
_ebbtide() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} verb=${{COMP_WORDS[1]}} flags= names= files=0
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W '{} --help --version' -- "$current"))
    return
  fi
  local i
  if [[ $verb == @({}) ]]; then
    for ((i = 2; i < COMP_CWORD; ++i)); do
      [[ ${{COMP_WORDS[i]}} == -- ]] || continue
      # By what bash-completion knows of the program, where that is there.
      if declare -F _command_offset >/dev/null; then
        _command_offset $((i + 1))
      else
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f $( ((i + 1 == COMP_CWORD)) && echo -c) -- "$current"))
      fi
      return
    done
  fi
  case $verb in
{}    *) return ;;
  esac
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$flags --help" -- "$current"))
    return
  fi
  COMPREPLY=($(compgen -W "$names" -- "$current"))
  if ((files)) && [[ ${{#COMPREPLY[@]}} -eq 0 || $current == */* ]]; then
    compopt -o filenames 2>/dev/null
    local IFS=$'\n'
    COMPREPLY+=($(compgen -f -- "$current"))
  fi
}}
complete -F _ebbtide ebbtide
)",
      NamesOf(verbs), fmt::join(Running(verbs), "|"), cases);
}

std::string ZshCompletion(const std::vector<VerbGrammar>& verbs) {
  std::string described, cases;
  for (const VerbGrammar& verb : verbs) {
    described += fmt::format("    {}\n", Quoted(verb.name + ":" + ZshText(verb.description)));
    cases += ZshVerb(verb);
  }
  return fmt::format(R"zsh(#compdef ebbtide
# Completion of ebbtide for zsh: ebbtide completion zsh > a folder of $fpath, as _ebbtide
_ebbtide_name_or_file() {{ _alternative "names:name:($*)" 'files:file:_files'; }}
_ebbtide_program() {{
  local at=${{words[(i)--]}}
  (( at < CURRENT )) || return 1
  shift $at words
  (( CURRENT -= at ))
  _normal
  return 0
}}
_ebbtide() {{
  local -a verbs=(
{}  )
  local context state state_descr line
  typeset -A opt_args
  _arguments -C '--help[Print help]' '--version[Print the version]' '1:verb:->verb' '*::word:->words'
  case $state in
    verb) _describe verb verbs ;;
    words)
      case $words[1] in
{}      esac ;;
  esac
}}
if [[ $funcstack[1] == _ebbtide ]]; then _ebbtide "$@"; else compdef _ebbtide ebbtide; fi
)zsh",
                     described, cases);
}

std::string FishCompletion(const std::vector<VerbGrammar>& verbs) {
  std::string out =
      "# Completion of ebbtide for fish: ebbtide completion fish > ~/.config/fish/completions/ebbtide.fish\n"
      "function __ebbtide_first  # no verb yet\n"
      "  test (count (commandline -opc)) -eq 1\n"
      "end\n"
      "function __ebbtide_behind  # in the program's own command line\n"
      "  set -l words (commandline -opc)\n";
  out += fmt::format("  set -q words[2]; and contains -- $words[2] {}; and contains -- -- $words\n",
                     fmt::join(Running(verbs), " "));
  out +=
      "end\n"
      "function __ebbtide_verb  # the verb is one of the arguments\n"
      "  set -l words (commandline -opc)\n"
      "  set -q words[2]; and contains -- $words[2] $argv; and not __ebbtide_behind\n"
      "end\n"
      "function __ebbtide_program\n"
      "  set -l words (commandline -opc)\n"
      "  set -l own $words[(math (contains -i -- -- $words) + 1)..-1]\n"
      "  complete -C (string join ' ' -- (string escape -- $own) (commandline -ct))\n"
      "end\n"
      "complete -c ebbtide -f\n"
      "complete -c ebbtide -n 'not __ebbtide_behind' -s h -l help -d 'Print help'\n"
      "complete -c ebbtide -n __ebbtide_behind -a '(__ebbtide_program)'\n"
      "complete -c ebbtide -n __ebbtide_first -l version -d 'Print the version'\n";
  for (const VerbGrammar& verb : verbs) {
    out += fmt::format("complete -c ebbtide -n __ebbtide_first -a {} -d {}\n", verb.name, Quoted(verb.description));
  }
  for (const VerbGrammar& verb : verbs) {
    const std::string begin = fmt::format("complete -c ebbtide -n '__ebbtide_verb {}'", verb.name);
    for (const Flag& flag : verb.flags) {
      out += begin;
      if (!flag.short_name.empty()) out += " -s " + flag.short_name.substr(1);
      out += " -l " + flag.long_name.substr(2) + FishValues(flag.values, flag.listed);
      out += " -d " + Quoted(flag.description) + "\n";
    }
    for (const Word& word : verb.words) {
      if (TakesListed(word.values)) out += begin + " -a " + Quoted(Joined(word.listed)) + "\n";
      if (TakesFiles(word.values)) out += begin + " -F\n";
    }
  }
  return out;
}

}  // namespace ebbtide::cli
