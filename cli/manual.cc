// Writes the macros of man(7).
#include "cli/manual.h"

#include <fmt/format.h>

#include <string_view>

namespace ebbtide::cli {
namespace {

// A backslash, a minus, and a dot or a quote that begins a line mean something to troff.
std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '`') {
      out += "\\(aq";
    } else {
      out += c;
    }
  }
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::string Title(const std::string& name) {
  return fmt::format(".TH {} 1 \"\" \"ebbtide {}\" \"Ebbtide\"\n", Escaped(name), EBBTIDE_VERSION);
}

std::string Name(const std::string& name, const std::string& description) {
  return fmt::format(".SH NAME\n{} \\- {}\n", Escaped(name), Escaped(description));
}

std::string Entry(const std::string& head, const std::string& text) {
  return fmt::format(".TP\n{}\n{}\n", head, Escaped(text));
}

std::string HeadOf(const Flag& flag) {
  std::string head = flag.short_name.empty() ? "" : "\\fB" + Escaped(flag.short_name) + "\\fR, ";
  head += "\\fB" + Escaped(flag.long_name) + "\\fR";
  if (!flag.value.empty()) head += " \\fI" + Escaped(flag.value) + "\\fR";
  return head;
}

constexpr const char* kExit =
    ".SH EXIT STATUS\n.TP\n0\ndone; it fits, it is feasible\n.TP\n1\ndone, and the answer is no\n"
    ".TP\n2\nbad usage or bad input: one line on standard error says which\n.TP\n130\ninterrupted\n";

}  // namespace

std::string ProgramManual(const CLI::App& program) {
  std::string out = Title("ebbtide") + Name("ebbtide", "memory of deep-learning training on GPUs");
  out += ".SH SYNOPSIS\n\\fBebbtide\\fR \\fIVERB\\fR [\\fIFLAGS\\fR]\n.SH DESCRIPTION\n" +
         Escaped(program.get_description()) + "\n.SH VERBS\n";
  for (const VerbGrammar& verb : GrammarOf(program)) {
    out += Entry("\\fB" + Escaped(verb.name) + "\\fR", verb.description);
  }
  return out + kExit + ".SH SEE ALSO\n\\fBebbtide\\-\\fIVERB\\fR(1) for each verb\n";
}

std::string VerbManual(const CLI::App& app) {
  const VerbGrammar verb = GrammarOfVerb(app);
  std::string out = Title("ebbtide-" + verb.name) + Name("ebbtide-" + verb.name, verb.description);
  out += ".SH SYNOPSIS\n\\fBebbtide " + Escaped(verb.name) + "\\fR";
  for (const Word& word : verb.words) out += " \\fI" + Escaped(word.name) + "\\fR";
  out += " [\\fIFLAGS\\fR]\n";
  if (!verb.words.empty()) out += ".SH INPUT\n";
  for (const Word& word : verb.words) out += Entry("\\fI" + Escaped(word.name) + "\\fR", word.description);
  for (const std::string& group : verb.groups) {
    std::string heading = group;
    for (char& c : heading) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    out += ".SH " + Escaped(heading) + "\n";
    for (const Flag& flag : verb.flags) {
      if (flag.group == group) out += Entry(HeadOf(flag), flag.description);
    }
  }
  return out + kExit + ".SH SEE ALSO\n\\fBebbtide\\fR(1)\n";
}

}  // namespace ebbtide::cli
