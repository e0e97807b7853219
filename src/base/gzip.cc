// Decompresses in chunks and checks both limits after each, before more memory is taken.
#include "base/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

namespace ebbtide {
namespace {

constexpr int kGzipWindow = 15 + 16;  // the largest window, gzip's header and trailer instead of zlib's
constexpr auto kChunk = static_cast<std::size_t>(64 * kKiB);

// zlib counts in unsigned int.
uInt AtMostUInt(std::size_t size) {
  return static_cast<uInt>(std::min<std::size_t>(size, std::numeric_limits<uInt>::max()));
}

Bytef* Unsigned(const char* bytes) { return reinterpret_cast<Bytef*>(const_cast<char*>(bytes)); }

class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream_, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream& operator*() { return stream_; }

 private:
  z_stream stream_{};
};

// The last four bytes of a member give its size modulo 2^32. It is only a hint: memory that is reserved and never
// written costs nothing, and one reservation spares a large text its copies.
std::size_t SizeHint(std::string_view compressed, std::size_t most) {
  if (compressed.size() < 4) return 0;
  std::uint32_t size = 0;
  std::memcpy(&size, compressed.data() + compressed.size() - 4, 4);
  return std::min<std::size_t>(size, most);
}

}  // namespace

bool IsGzip(std::string_view content) { return content.starts_with("\x1f\x8b"); }

Result<std::string> Gunzip(std::string_view compressed, Bytes limit) {
  const auto allowed_after = [](std::size_t consumed) {
    return kGzipSlack + kGzipRatio * static_cast<Bytes>(consumed);
  };
  Inflater inflater;
  z_stream& stream = *inflater;
  std::string text;
  text.reserve(SizeHint(compressed, static_cast<std::size_t>(std::min(limit, allowed_after(compressed.size())))));
  std::size_t consumed = 0;
  std::size_t filled = 0;
  while (true) {
    if (filled == text.size()) {
      // One byte beyond the limit is enough to see that it is broken.
      const auto most = static_cast<std::size_t>(limit) + 1;
      const std::size_t room = text.capacity() > filled ? text.capacity() : most;
      text.resize(std::min({most, std::max(kChunk, filled + filled / 4), room}));
    }
    stream.next_in = Unsigned(compressed.data() + consumed);
    stream.avail_in = AtMostUInt(std::min(compressed.size() - consumed, kChunk));
    stream.next_out = Unsigned(text.data() + filled);
    stream.avail_out = AtMostUInt(text.size() - filled);
    const uInt given = stream.avail_in;
    const uInt room = stream.avail_out;
    const int code = inflate(&stream, Z_NO_FLUSH);
    consumed += given - stream.avail_in;
    filled += room - stream.avail_out;

    if (static_cast<Bytes>(filled) > limit) return Fail("larger than {} when decompressed", FormatBytes(limit));
    if (static_cast<Bytes>(filled) > allowed_after(consumed)) {
      return Fail("expands to more than {} from {} of gzip: more than {} times is not read", FormatBytes(kGzipSlack),
                  FormatBytes(static_cast<Bytes>(consumed)), kGzipRatio);
    }
    if (code == Z_STREAM_END) {
      if (consumed == compressed.size()) break;
      if (!IsGzip(compressed.substr(consumed))) {
        return Fail("gzip: expected the end or another member at byte {}, found other data", consumed);
      }
      inflateReset(&stream);
    } else if (code == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      return Fail("gzip: corrupt at byte {}: {}", consumed, stream.msg == nullptr ? "no such stream" : stream.msg);
    } else if (consumed == compressed.size() && stream.avail_out > 0) {
      return Fail("gzip: truncated after {} bytes", consumed);
    }
  }
  text.resize(filled);
  return text;
}

struct GzipEncoder::Stream {
  z_stream z{};
};

GzipEncoder::GzipEncoder() : stream_(std::make_unique<Stream>()) {
  if (deflateInit2(&stream_->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
}

GzipEncoder::~GzipEncoder() { deflateEnd(&stream_->z); }

void GzipEncoder::Append(std::string_view piece, bool last, std::string& out) {
  z_stream& stream = stream_->z;
  int code = Z_OK;
  bool done = false;
  while (!done) {
    const uInt given = AtMostUInt(piece.size());
    stream.next_in = Unsigned(piece.data());
    stream.avail_in = given;
    const bool finish = last && given == piece.size();
    const std::size_t filled = out.size();
    out.resize(filled + kChunk);
    stream.next_out = Unsigned(out.data() + filled);
    stream.avail_out = kChunk;
    code = deflate(&stream, finish ? Z_FINISH : Z_NO_FLUSH);
    out.resize(out.size() - stream.avail_out);
    piece.remove_prefix(given - stream.avail_in);
    done = finish ? code == Z_STREAM_END : piece.empty() && stream.avail_out > 0;
  }
}

}  // namespace ebbtide
