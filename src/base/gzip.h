// The two directions of gzip over zlib, for file.cc.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace ebbtide {

// A gzip file may claim any size, a thousandfold of its own. At every point of the stream the text so far may be no
// longer than kGzipSlack + kGzipRatio times the compressed bytes it came from. Graphs as JSON compress 10 to 20 times
// as a whole; the slack covers stretches of equal lines.
inline constexpr Bytes kGzipSlack = 64 * kMiB;
inline constexpr Bytes kGzipRatio = 100;

bool IsGzip(std::string_view content);

// The content of a gzip stream, of one or more members. More than `limit` bytes, or more than the ratio allows, is an
// error, found without holding more than that.
Result<std::string> Gunzip(std::string_view compressed, Bytes limit);

// Compresses piece by piece. No name and no time go into the header: equal content gives equal bytes.
class GzipEncoder {
 public:
  GzipEncoder();
  ~GzipEncoder();

  // What came out so far is appended to `out`; the end of the stream only when `last`.
  void Append(std::string_view piece, bool last, std::string& out);

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

}  // namespace ebbtide
