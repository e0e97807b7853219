// The format of protobuf's wire is walked by hand: nothing is built before its length is known to lie within the file.
#include "model/protobuf/structure.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <array>
#include <vector>

namespace ebbtide::model::protobuf {
namespace {

using google::protobuf::io::CodedInputStream;

// Wire types of protobuf's encoding.
enum class Wire : std::uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLength = 2,
  kGroupStart = 3,
  kGroupEnd = 4,
  kFixed32 = 5
};

const Field* FindField(const Message& message, std::uint32_t number) {
  for (const Field& field : message.fields) {
    if (field.number == number) return &field;
  }
  return nullptr;
}

bool IsTensorData(Content content) { return content >= Content::kTensorNumbers; }

Wire SingleWire(Content content) {
  switch (content) {
    case Content::kNumber:
    case Content::kTensorNumbers: return Wire::kVarint;
    case Content::kFloat:
    case Content::kTensorFloats: return Wire::kFixed32;
    case Content::kDouble:
    case Content::kTensorDoubles: return Wire::kFixed64;
    case Content::kBytes:
    case Content::kMessage:
    case Content::kTensorBytes: return Wire::kLength;
  }
  return Wire::kLength;
}

void AppendVarint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void AppendTag(std::string& out, std::uint32_t number, Wire wire) {
  AppendVarint(out, number << 3 | static_cast<std::uint32_t>(wire));
}

bool IsPackedVarints(std::string_view block) {
  int length = 0;
  for (char byte : block) {
    if (++length > 10) return false;
    if ((byte & 0x80) == 0) length = 0;
  }
  return length == 0;
}

class StructureReader {
 public:
  StructureReader(google::protobuf::io::ZeroCopyInputStream& file, Bytes size, const Format& format)
      : in_(&file), format_(format) {
    in_.SetTotalBytesLimit(static_cast<int>(kMostFileBytes));
    in_.PushLimit(static_cast<int>(size));
  }

  Result<std::string> Read() {
    std::string out;
    EBB_RETURN_IF_ERROR(Copy(*format_.root, out));
    return out;
  }

 private:
  struct Step {
    const char* field;
    int index;
  };

  // The fields of one message, up to the limit that its parent has set.
  Status Copy(const Message& message, std::string& out) {
    std::array<int, kMostFieldNumber + 1> seen{};
    while (in_.BytesUntilLimit() > 0) {
      start_ = in_.CurrentPosition();
      std::uint32_t tag = in_.ReadTag();
      const auto wire = static_cast<Wire>(tag & 7);
      if (tag >> 3 == 0) return Wrong(fmt::format("expected a field of {} {} message", format_.article, format_.name));
      const Field* field = FindField(message, tag >> 3);
      if (field == nullptr) {
        EBB_RETURN_IF_ERROR(Skip(wire));
        continue;
      }
      path_.push_back({field->name, seen[field->number]++});
      if (++fields_ > kMostFields) return Wrong(fmt::format("expected at most {} fields besides weights", kMostFields));
      EBB_RETURN_IF_ERROR(CopyField(*field, wire, out));
      if (static_cast<Bytes>(out.size()) > kMostStructureBytes) {
        return Wrong(fmt::format("expected at most {} besides weights", FormatBytes(kMostStructureBytes)));
      }
      path_.pop_back();
    }
    return {};
  }

  Status CopyField(const Field& field, Wire wire, std::string& out) {
    const Wire single = SingleWire(field.content);
    if (wire == Wire::kLength) return CopyLength(field, single, out);
    if (wire != single) return Wrong(fmt::format("is of another wire type than {} gives this field", format_.name));
    if (wire == Wire::kVarint) {
      std::uint64_t value = 0;
      if (!in_.ReadVarint64(&value)) return Wrong("expected a number, but its bytes end early");
      if (IsTensorData(field.content) && !KeepTensorData(1)) return {};
      AppendTag(out, field.number, wire);
      AppendVarint(out, value);
      return {};
    }
    char bytes[8];
    const int length = wire == Wire::kFixed32 ? 4 : 8;
    if (!in_.ReadRaw(bytes, length)) return Wrong("expected a number, but its bytes end early");
    if (IsTensorData(field.content) && !KeepTensorData(length)) return {};
    AppendTag(out, field.number, wire);
    out.append(bytes, length);
    return {};
  }

  // Text, a message, tensor data, or numbers packed into one field.
  Status CopyLength(const Field& field, Wire single, std::string& out) {
    EBB_ASSIGN_OR_RETURN(const int length, ReadLength());
    if (field.content == Content::kMessage) {
      std::string inside;
      if (field.message == format_.tensor) tensor_data_ = 0;
      const auto limit = in_.PushLimit(length);
      EBB_RETURN_IF_ERROR(Copy(*field.message, inside));
      in_.PopLimit(limit);
      return Append(field, inside, out);
    }
    if (IsTensorData(field.content) && !KeepTensorData(length)) return SkipBytes(length);
    if (length > kMostStructureBytes) {
      return Wrong(fmt::format("is of {} bytes: expected at most {}", length, FormatBytes(kMostStructureBytes)));
    }
    std::string block;
    if (!in_.ReadString(&block, length)) return Wrong("could not be read");
    const bool whole = single == Wire::kVarint    ? IsPackedVarints(block)
                       : single == Wire::kFixed32 ? length % 4 == 0
                       : single == Wire::kFixed64 ? length % 8 == 0
                                                  : true;
    if (!whole) return Wrong("expected whole numbers, but the last one is cut");
    return Append(field, block, out);
  }

  Status Append(const Field& field, const std::string& inside, std::string& out) {
    AppendTag(out, field.number, Wire::kLength);
    AppendVarint(out, inside.size());
    out += inside;
    return {};
  }

  // Whether data of that length still counts as small. A tensor of which a part is left out has too few elements, and
  // is taken for one whose contents are not known.
  bool KeepTensorData(Bytes length) {
    if (tensor_data_ > kMostTensorDataBytes) return false;
    tensor_data_ += length;
    return tensor_data_ <= kMostTensorDataBytes;
  }

  Result<int> ReadLength() {
    std::uint32_t length = 0;
    std::uint64_t claimed = 0;
    if (!in_.ReadVarint64(&claimed)) return Wrong("expected a length, but its bytes end early");
    if (claimed > static_cast<std::uint64_t>(in_.BytesUntilLimit())) {
      return Wrong(fmt::format("claims {} bytes, but {} are left", claimed, in_.BytesUntilLimit()));
    }
    length = static_cast<std::uint32_t>(claimed);
    return static_cast<int>(length);
  }

  Status Skip(Wire wire) {
    std::uint64_t ignored = 0;
    switch (wire) {
      case Wire::kVarint:
        if (!in_.ReadVarint64(&ignored)) return Wrong("expected a number, but its bytes end early");
        return {};
      case Wire::kFixed64: return SkipBytes(8);
      case Wire::kFixed32: return SkipBytes(4);
      case Wire::kLength: {
        EBB_ASSIGN_OR_RETURN(const int length, ReadLength());
        return SkipBytes(length);
      }
      case Wire::kGroupStart:
      case Wire::kGroupEnd: break;
    }
    return Wrong(fmt::format("expected a field of {} {} message", format_.article, format_.name));
  }

  Status SkipBytes(int length) {
    if (length > in_.BytesUntilLimit() || !in_.Skip(length)) return Wrong("ends early");
    return {};
  }

  tl::unexpected<Error> Wrong(const std::string& what) const {
    std::string place;
    for (const Step& step : path_) {
      place += place.empty() ? "" : ".";
      place += step.field;
      if (&step != &path_.front() || step.index > 0) place += fmt::format("[{}]", step.index);
    }
    return Fail("byte {}{}{}: {}", start_, place.empty() ? "" : ", ", place, what);
  }

  CodedInputStream in_;
  const Format& format_;
  std::vector<Step> path_;
  int start_ = 0;  // of the field being read
  std::int64_t fields_ = 0;
  Bytes tensor_data_ = 0;  // of the tensor being read
};

}  // namespace

Result<std::string> ReadStructure(google::protobuf::io::ZeroCopyInputStream& file, Bytes size, const Format& format) {
  return StructureReader(file, size, format).Read();
}

}  // namespace ebbtide::model::protobuf
