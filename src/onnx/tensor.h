// Tensors in ONNX files: any of the places in which values may lie, checked against the dims they claim.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/file.h"
#include "neap/builder.h"
#include "onnx/proto.h"

namespace neap::onnx {

// A tensor whose values are known when the graph is built.
struct Constant {
  TensorType type;
  std::shared_ptr<const Blob> data;
};
using ConstantPtr = std::shared_ptr<const Constant>;

// Null where Neap has no such type. `widen`: half, bfloat16 and double are taken as f32.
std::optional<DType> dtype_of(int onnx_type, bool widen);
int onnx_type_of(DType type);
std::string onnx_type_name(int onnx_type);

// Other files of a model: inside the model's own folder, whatever links and dots the path has.
class ExternalFiles {
 public:
  explicit ExternalFiles(const std::filesystem::path& model) : folder_(model.parent_path()) {}
  // UserError when the location leaves the folder or the range the file.
  std::shared_ptr<const Blob> range(const pb::TensorProto& tensor);

 private:
  std::shared_ptr<const MappedFile> open(const std::string& location, const std::string& tensor);

  std::filesystem::path folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
};

// The shape; UserError names the tensor when a dim is negative or their product overflows.
Shape shape_of(const pb::TensorProto& tensor);

// Values as they lie in the file where they can (`owner` keeps `tensor` alive), else converted. UserError names the
// tensor when type, dims and data do not fit each other.
Constant read_tensor(const pb::TensorProto& tensor, std::shared_ptr<const void> owner, ExternalFiles* files,
                     bool widen);

// The other way: bytes of a tensor that was read with `widen` in the type that `like` has in its file.
std::string raw_as(const pb::TensorProto& like, std::span<const std::byte> f32);

// Integers and reals of any type.
Ints ints_of(const Constant& constant);
std::vector<double> reals_of(const Constant& constant);

Constant make_ints(const Ints& values);    // i64 of rank 1
Constant make_scalar(std::int64_t value);  // i64 of rank 0

}  // namespace neap::onnx
