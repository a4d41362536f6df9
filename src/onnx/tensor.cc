#include "onnx/tensor.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

#include "neap/error.h"
#include "onnx/limits.h"
#include "ops/evaluate.h"

namespace neap::onnx {
namespace {

using pb::TensorProto;

struct TypeRow {
  int onnx;
  DType type;
  bool widened = false;  // taken as f32 on request
};
constexpr TypeRow kTypes[] = {{TensorProto::FLOAT, DType::kF32},
                              {TensorProto::FLOAT16, DType::kF16, true},
                              {TensorProto::BFLOAT16, DType::kBF16, true},
                              {TensorProto::INT64, DType::kI64},
                              {TensorProto::INT32, DType::kI32},
                              {TensorProto::INT8, DType::kI8},
                              {TensorProto::UINT8, DType::kU8},
                              {TensorProto::UINT16, DType::kU16},
                              {TensorProto::UINT64, DType::kU64},
                              {TensorProto::INT16, DType::kI16},
                              {TensorProto::UINT32, DType::kU32},
                              {TensorProto::DOUBLE, DType::kF64, true},
                              {TensorProto::BOOL, DType::kBool}};

// Types newer than the generated classes.
constexpr std::pair<int, const char*> kNewTypes[] = {{17, "FLOAT8E4M3FN"},   {18, "FLOAT8E4M3FNUZ"}, {19, "FLOAT8E5M2"},
                                                     {20, "FLOAT8E5M2FNUZ"}, {21, "UINT4"},          {22, "INT4"}};

[[noreturn]] void bad(const TensorProto& t, const std::string& what) {
  throw UserError(fmt::format("tensor '{}': {}", printable(t.name()), what));
}

// From one of the repeated fields, whose elements are wider than the tensor's own.
template <class To, class Field>
std::vector<std::byte> narrowed(const TensorProto& t, const Field& field, std::int64_t elements) {
  if (field.size() != elements) {
    bad(t, fmt::format("{} values are given, its dims ask for {}", field.size(), elements));
  }
  std::vector<std::byte> out(static_cast<std::size_t>(elements) * sizeof(To));
  std::size_t at = 0;
  for (const auto value : field) {
    const To narrow = static_cast<To>(value);
    std::memcpy(out.data() + at, &narrow, sizeof narrow);
    at += sizeof narrow;
  }
  return out;
}

std::vector<std::byte> from_fields(const TensorProto& t, DType type, std::int64_t n) {
  switch (type) {
    case DType::kF32: return narrowed<float>(t, t.float_data(), n);
    case DType::kI64: return narrowed<std::int64_t>(t, t.int64_data(), n);
    case DType::kU64: return narrowed<std::uint64_t>(t, t.uint64_data(), n);
    case DType::kF64: return narrowed<double>(t, t.double_data(), n);
    case DType::kU32: return narrowed<std::uint32_t>(t, t.uint64_data(), n);
    case DType::kI32: return narrowed<std::int32_t>(t, t.int32_data(), n);
    case DType::kI8:
    case DType::kU8: return narrowed<std::uint8_t>(t, t.int32_data(), n);
    case DType::kBool: return narrowed<bool>(t, t.int32_data(), n);
    default: return narrowed<std::uint16_t>(t, t.int32_data(), n);  // 16 bits, floats by their bits
  }
}

std::optional<DType> stored_type(int onnx_type) { return dtype_of(onnx_type, false); }

// The bytes as the file has them.
std::shared_ptr<const Blob> stored(const TensorProto& t, const TensorType& type, std::shared_ptr<const void> owner,
                                   ExternalFiles* files) {
  if (t.data_location() == TensorProto::EXTERNAL) {
    if (files == nullptr) bad(t, "its values lie in another file, which is not allowed here");
    return files->range(t);
  }
  if (!t.has_raw_data()) return Blob::of(from_fields(t, type.dtype, type.elements()));
  return std::make_shared<const Blob>(Blob{.bytes = std::as_bytes(std::span(t.raw_data())), .owner = std::move(owner)});
}

// One node of Neap's own cast, so that rounding is defined in one place.
Constant cast_to(const Constant& from, DType to) {
  Builder g;
  const Value x = g.constant("x", from.type, {from.data->bytes.begin(), from.data->bytes.end()});
  const Value y = g("cast", {x}, {{"to", std::string(name(to))}});
  Graph graph = g.take();
  HostTensor result = std::move(evaluate(graph, {})[y.index]);
  return {.type = result.type, .data = Blob::of(std::move(result.data))};
}

}  // namespace

std::optional<DType> dtype_of(int onnx_type, bool widen) {
  for (const TypeRow& row : kTypes) {
    if (row.onnx == onnx_type) return widen && row.widened ? DType::kF32 : row.type;
  }
  return std::nullopt;
}

int onnx_type_of(DType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row.onnx;
  }
  throw InternalError(fmt::format("{} is no type of ONNX", name(type)));
}

std::string onnx_type_name(int onnx_type) {
  if (pb::TensorProto_DataType_IsValid(onnx_type)) {
    return pb::TensorProto_DataType_Name(static_cast<pb::TensorProto_DataType>(onnx_type));
  }
  for (const auto& [number, text] : kNewTypes) {
    if (number == onnx_type) return text;
  }
  return fmt::format("type {}", onnx_type);
}

std::shared_ptr<const MappedFile> ExternalFiles::open(const std::string& location, const std::string& tensor) {
  if (const auto known = files_.find(location); known != files_.end()) return known->second;
  namespace fs = std::filesystem;
  const fs::path relative(location);
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(folder_.empty() ? fs::path(".") : folder_, error);
  const fs::path path = fs::weakly_canonical(folder / relative, error);
  const fs::path inside = path.lexically_relative(folder);
  const bool is_path = !location.empty() && location.find('\0') == std::string::npos;
  if (!is_path || relative.is_absolute() || inside.empty() || *inside.begin() == "..") {
    throw UserError(fmt::format("tensor '{}': its data lie in '{}', which is not inside the model's own folder",
                                printable(tensor), printable(location)));
  }
  try {
    auto file = std::make_shared<const MappedFile>(path);
    files_.emplace(location, file);
    return file;
  } catch (const UserError& e) {
    throw UserError(fmt::format("tensor '{}': {}", printable(tensor), e.what()));
  }
}

namespace {

std::uint64_t number_in(const TensorProto& t, const std::string& key, const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) {
    bad(t, fmt::format("external data have the {} '{}', which is no number of bytes", key, printable(text)));
  }
  return value;
}

}  // namespace

std::shared_ptr<const Blob> ExternalFiles::range(const TensorProto& t) {
  std::string location;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
  for (const auto& entry : t.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = number_in(t, "offset", entry.value());
    if (entry.key() == "length") length = number_in(t, "length", entry.value());
  }
  const auto file = open(location, t.name());
  const std::uint64_t size = file->size();
  if (offset > size || length.value_or(0) > size - offset) {
    bad(t, fmt::format("its data end behind the {} bytes of '{}'", size, printable(location)));
  }
  const std::span<const std::byte> bytes = file->bytes().subspan(offset, length.value_or(size - offset));
  return std::make_shared<const Blob>(Blob{.bytes = bytes, .owner = file, .is_mapped = true});
}

Shape shape_of(const TensorProto& t) {
  if (t.dims_size() > kMaxRank) bad(t, fmt::format("{} dims are more than {}", t.dims_size(), kMaxRank));
  Shape shape;
  std::int64_t elements = 1;
  for (const std::int64_t dim : t.dims()) {
    if (dim < 0) bad(t, fmt::format("dim {} is negative", dim));
    if (__builtin_mul_overflow(elements, std::max<std::int64_t>(dim, 1), &elements) || elements > kMaxTensor) {
      bad(t, "its dims multiply to more than fits");
    }
    shape.push_back(dim);
  }
  return shape;
}

Constant read_tensor(const TensorProto& t, std::shared_ptr<const void> owner, ExternalFiles* files, bool widen) {
  const Shape shape = shape_of(t);
  const auto type = stored_type(t.data_type());
  if (!type) bad(t, fmt::format("{} is not supported", onnx_type_name(t.data_type())));
  const TensorType here{*type, shape};
  Constant out{.type = here, .data = stored(t, here, std::move(owner), files)};
  if (static_cast<std::int64_t>(out.data->size()) != here.bytes()) {
    bad(t, fmt::format("{} bytes are given, {} needs {}", out.data->size(), here.text(), here.bytes()));
  }
  const DType want = *dtype_of(t.data_type(), widen);
  return want == *type ? out : cast_to(out, want);
}

std::string raw_as(const TensorProto& like, std::span<const std::byte> f32) {
  const DType type = stored_type(like.data_type()).value();
  const auto text = [](std::span<const std::byte> bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  if (type == DType::kF32) return text(f32);
  const Constant from{.type = {DType::kF32, shape_of(like)}, .data = Blob::of({f32.begin(), f32.end()})};
  return text(cast_to(from, type).data->bytes);
}

Ints ints_of(const Constant& constant) {
  const Constant wide = constant.type.dtype == DType::kI64 ? constant : cast_to(constant, DType::kI64);
  Ints out(static_cast<std::size_t>(wide.type.elements()));
  if (!out.empty()) std::memcpy(out.data(), wide.data->data(), wide.data->size());
  return out;
}

std::vector<double> reals_of(const Constant& constant) {
  const Constant single = constant.type.dtype == DType::kF32 ? constant : cast_to(constant, DType::kF32);
  std::vector<float> narrow(static_cast<std::size_t>(single.type.elements()));
  if (!narrow.empty()) std::memcpy(narrow.data(), single.data->data(), single.data->size());
  return {narrow.begin(), narrow.end()};
}

Constant make_ints(const Ints& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {.type = {DType::kI64, {static_cast<std::int64_t>(values.size())}},
          .data = Blob::of({bytes.begin(), bytes.end()})};
}

Constant make_scalar(std::int64_t value) {
  Constant out = make_ints({value});
  out.type.shape = {};
  return out;
}

}  // namespace neap::onnx
