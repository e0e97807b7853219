// Reads the four columns by name and checks each row; errors name the line.
#include "pack/instance_csv.h"

#include <fmt/format.h>

#include <unordered_map>

#include "base/csv.h"
#include "base/file.h"
#include "base/json_text.h"

namespace ebbtide::pack {

Result<PackInstance> ParsePackInstance(std::string_view text, const std::string& path) {
  CsvReader in(text, path);
  const auto id = in.Column("id");
  const auto lower = in.Column("lower");
  const auto upper = in.Column("upper");
  const auto size = in.Column("size");
  if (!in.ok()) return tl::unexpected<Error>(in.error());
  if (!id || !lower || !upper || !size) return in.Wrong("expected a header with the columns id,lower,upper,size");
  PackInstance instance;
  std::unordered_map<std::string, std::int64_t> lines;
  Bytes sum = 0;
  while (in.Next()) {
    const std::string name(in.Text(id));
    if (name.empty()) return in.Wrong("expected an id, found nothing");
    if (!IsUtf8(name)) return in.Wrong(fmt::format("id: expected UTF-8, found {}", Quoted(name)));
    const auto [first, is_new] = lines.try_emplace(name, in.line());
    if (!is_new) return in.Wrong(fmt::format("id {} is already that of line {}", Quoted(name), first->second));
    PackItem item;
    item.from = in.Integer(lower, "lower, the step in which it begins: a whole number from 0 on", 0);
    item.to = in.Integer(upper, "upper, the step before which it ends: a whole number from 0 on", 0);
    item.size = in.Integer(size, "size, in bytes: a whole number from 0 on", 0);
    if (!in.ok()) return tl::unexpected<Error>(in.error());
    if (item.to <= item.from) {
      return in.Wrong(fmt::format("expected upper above lower, found {} and {}", item.to, item.from));
    }
    if (__builtin_add_overflow(sum, item.size, &sum)) return in.Wrong("size: the sum up to here exceeds 64 bits");
    instance.ids.push_back(name);
    instance.items.push_back(item);
  }
  if (!in.ok()) return tl::unexpected<Error>(in.error());
  if (instance.items.empty()) return Fail("{}: expected at least one row behind the header", path);
  if (const Status status = CheckPackItems(instance.items); !status) return Within(path, status.error());
  return instance;
}

Result<PackInstance> ReadPackInstance(const std::string& path) {
  EBB_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kPackFileLimit));
  return ParsePackInstance(text, path);
}

std::string PackCsv(const PackInstance& instance, std::span<const Bytes> offsets) {
  std::string out = "id,lower,upper,size,offset\n";
  for (std::size_t i = 0; i < instance.items.size(); ++i) {
    const PackItem& item = instance.items[i];
    const std::string& id = instance.ids[i];
    const bool quoted = id.find_first_of(", \"\n\r") != std::string::npos;
    out += fmt::format("{}{}{},{},{},{},{}\n", quoted ? "\"" : "", id, quoted ? "\"" : "", item.from, item.to,
                       item.size, offsets[i]);
  }
  return out;
}

}  // namespace ebbtide::pack
