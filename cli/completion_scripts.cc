// Writes the scripts of bash, zsh and fish. Behind the "--" of dryrun the shell's own completion goes on.
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

std::string NamesOf(const std::vector<VerbGrammar>& verbs) {
  std::vector<std::string> names;
  for (const VerbGrammar& verb : verbs) names.push_back(verb.name);
  return Joined(names);
}

// --gpu and -o alike.
std::string BashCase(const Flag& flag) {
  return flag.short_name.empty() ? flag.long_name : flag.short_name + "|" + flag.long_name;
}

std::string BashVerb(const VerbGrammar& verb) {
  std::string flags, behind;
  for (const Flag& flag : verb.flags) {
    flags += (flags.empty() ? "" : " ") + flag.long_name;
    if (flag.values == Values::kListed) {
      behind += fmt::format("        {}) names={}; files=1 ;;\n", BashCase(flag), Quoted(Joined(flag.listed)));
    } else if (flag.values == Values::kFiles) {
      behind += fmt::format("        {}) files=1 ;;\n", BashCase(flag));
    } else if (flag.values == Values::kText) {
      behind += fmt::format("        {}) return ;;\n", BashCase(flag));
    }
  }
  std::string names;
  bool files = verb.name == "dryrun";
  for (const Word& word : verb.words) {
    names += Joined(word.listed);
    files = files || word.values == Values::kFiles || word.values == Values::kModels;
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
    case Values::kModels: return fmt::format("_alternative 'models:model:({})' 'files:file:_files'", Joined(listed));
    case Values::kText:
    case Values::kNone: break;
  }
  return " ";
}

std::string ZshVerb(const VerbGrammar& verb) {
  std::string out = fmt::format("        {})\n          _arguments -s", verb.name);
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
  if (verb.name == "dryrun") out += " \\\n            '*:::program:_normal'";
  return out + " ;;\n";
}

std::string FishValues(Values values, const std::vector<std::string>& listed) {
  switch (values) {
    case Values::kListed: return " -x -a " + Quoted(Joined(listed));
    case Values::kFiles: return " -r -F";
    case Values::kText: return " -x";
    case Values::kModels: return " -a " + Quoted(Joined(listed));
    case Values::kNone: break;
  }
  return "";
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
      NamesOf(verbs), cases);
}

std::string ZshCompletion(const std::vector<VerbGrammar>& verbs) {
  std::string described, cases;
  for (const VerbGrammar& verb : verbs) {
    described += fmt::format("    {}\n", Quoted(verb.name + ":" + ZshText(verb.description)));
    cases += ZshVerb(verb);
  }
  return fmt::format(R"(#compdef ebbtide
# Completion of ebbtide for zsh: ebbtide completion zsh > a folder of $fpath, as _ebbtide
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
)",
                     described, cases);
}

std::string FishCompletion(const std::vector<VerbGrammar>& verbs) {
  std::string out =
      "# Completion of ebbtide for fish: ebbtide completion fish > ~/.config/fish/completions/ebbtide.fish\n"
      "complete -c ebbtide -l help -d 'Print help'\n"
      "complete -c ebbtide -n __fish_use_subcommand -l version -d 'Print the version'\n"
      "complete -c ebbtide -n __fish_use_subcommand -f\n";
  for (const VerbGrammar& verb : verbs) {
    out +=
        fmt::format("complete -c ebbtide -n __fish_use_subcommand -a {} -d {}\n", verb.name, Quoted(verb.description));
  }
  for (const VerbGrammar& verb : verbs) {
    const std::string begin = fmt::format("complete -c ebbtide -n '__fish_seen_subcommand_from {}'", verb.name);
    for (const Flag& flag : verb.flags) {
      out += begin;
      if (!flag.short_name.empty()) out += " -s " + flag.short_name.substr(1);
      out += " -l " + flag.long_name.substr(2) + FishValues(flag.values, flag.listed);
      out += " -d " + Quoted(flag.description) + "\n";
    }
    for (const Word& word : verb.words) {
      if (!word.listed.empty()) out += begin + " -a " + Quoted(Joined(word.listed)) + "\n";
    }
  }
  return out;
}

}  // namespace ebbtide::cli
