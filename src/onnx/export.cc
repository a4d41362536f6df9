// A trained model back into a file: the structure as it was read, with other values in the initializers.
#include <fmt/format.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <exception>
#include <map>
#include <optional>

#include "core/file.h"
#include "neap/error.h"
#include "onnx/onnx_model.h"

namespace neap::onnx {
namespace {

constexpr std::size_t kInlineBytes = 1024;             // smaller tensors stay in the model's own file
constexpr std::size_t kLargestInline = 1'500'000'000;  // protobuf ends at 2 GiB
constexpr std::uint64_t kPage = 4096;                  // so that readers can map what they need

void clear_values(pb::TensorProto& t) {
  t.clear_float_data();
  t.clear_int32_data();
  t.clear_int64_data();
  t.clear_uint64_data();
  t.clear_double_data();
  t.clear_raw_data();
  t.clear_external_data();
  t.clear_data_location();
}

// The values to write, in the type of the file.
std::string values_of(const pb::TensorProto& t, ExternalFiles& files, const WeightReader& weight) {
  const auto type = dtype_of(t.data_type(), true);
  const std::span<const std::byte> trained = type == DType::kF32 ? weight(t.name()) : std::span<const std::byte>();
  if (!trained.empty()) return raw_as(t, trained);
  const Constant as_read = read_tensor(t, nullptr, &files, false);
  return {reinterpret_cast<const char*>(as_read.data->data()), as_read.data->size()};
}

void point_to(pb::TensorProto& t, const std::string& location, std::uint64_t offset, std::uint64_t length) {
  t.set_data_location(pb::TensorProto::EXTERNAL);
  const auto add = [&](const char* key, const std::string& value) {
    auto* entry = t.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", location);
  add("offset", std::to_string(offset));
  add("length", std::to_string(length));
}

// A weight that shared its first values with another through an Identity node and has its own now.
void give_own_values(pb::GraphProto& graph, const WeightReader& weight) {
  std::map<std::string, int> at;
  for (int i = 0; i < graph.initializer_size(); ++i) at[graph.initializer(i).name()] = i;
  auto* nodes = graph.mutable_node();
  for (int i = nodes->size(); i-- > 0;) {
    const pb::NodeProto& node = nodes->Get(i);
    if (node.op_type() != "Identity" || node.input_size() != 1 || node.output_size() != 1) continue;
    const auto from = at.find(node.input(0));
    if (from == at.end() || weight(node.output(0)).empty()) continue;
    pb::TensorProto own = graph.initializer(from->second);
    own.set_name(node.output(0));
    *graph.add_initializer() = std::move(own);
    nodes->DeleteSubrange(i, 1);
  }
}

// The file for the values, beside the model's. Never the one that a model of that name has now: it stays whole until
// the new model is in its place, and goes then.
struct SecondFile {
  std::filesystem::path path, old;

  explicit SecondFile(const std::filesystem::path& model) : path(model), old(model) {
    path += ".data";
    old += ".data.2";
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) std::swap(path, old);
  }
  void remove_old() const {
    std::error_code ignored;
    std::filesystem::remove(old, ignored);
  }
};

bool wants_second_file(const pb::ModelProto& model) {
  std::size_t bytes = 0;
  for (const auto& t : model.graph().initializer()) {
    if (t.data_location() == pb::TensorProto::EXTERNAL) return true;
    const bool is_open = t.raw_data().empty();  // its values come later
    bytes += is_open ? std::max(t.ByteSizeLong(), sizeof(float) * static_cast<std::size_t>(shape_of(t).count()))
                     : t.ByteSizeLong();
  }
  return bytes > kLargestInline;
}

// Bytes go to the file as they are made: the model is in memory once.
class ToFile final : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit ToFile(AtomicFile& file) : file_(file) {}
  // An exception must not pass through protobuf's destructors.
  bool Write(const void* bytes, int size) override {
    try {
      file_.write({static_cast<const std::byte*>(bytes), static_cast<std::size_t>(size)});
      return true;
    } catch (...) {
      error_ = std::current_exception();
      return false;
    }
  }
  void check() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  AtomicFile& file_;
  std::exception_ptr error_;
};

void write_proto(const pb::ModelProto& model, AtomicFile& file, const std::filesystem::path& path) {
  const bool fits = model.ByteSizeLong() <= static_cast<std::size_t>(INT32_MAX);
  if (!fits) throw UserError(fmt::format("'{}' is too large for one file", path.string()));
  ToFile to(file);
  google::protobuf::io::CopyingOutputStreamAdaptor stream(&to);
  const bool is_whole = model.SerializeToZeroCopyStream(&stream) && stream.Flush();
  to.check();
  require(is_whole, "an ONNX model is written as a whole");
}

}  // namespace

void write_filled(pb::ModelProto& model, const std::filesystem::path& path, const ValuesOf& read) {
  std::optional<AtomicFile> second;
  const SecondFile beside(path);
  if (wants_second_file(model)) second.emplace(beside.path);
  std::uint64_t end = 0;
  for (pb::TensorProto& t : *model.mutable_graph()->mutable_initializer()) {
    std::string values = read(t);
    clear_values(t);
    if (!second || values.size() < kInlineBytes) {
      t.set_raw_data(std::move(values));
      continue;
    }
    const std::string gap((kPage - end % kPage) % kPage, '\0');
    second->write(gap);
    second->write(values);
    point_to(t, beside.path.filename().string(), end + gap.size(), values.size());
    end += gap.size() + values.size();
  }
  AtomicFile file(path);
  write_proto(model, file, path);
  if (second) second->commit();
  file.commit();
  if (second) beside.remove_old();
}

void write_model(const pb::ModelProto& model, ExternalFiles& files, const std::filesystem::path& path,
                 const WeightReader& weight) {
  pb::ModelProto out = model;
  give_own_values(*out.mutable_graph(), weight);
  write_filled(out, path, [&](const pb::TensorProto& t) { return values_of(t, files, weight); });
}

}  // namespace neap::onnx
