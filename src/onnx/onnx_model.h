// A model in an ONNX file, as something to train.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "neap/model.h"
#include "onnx/tensor.h"

namespace neap::onnx {

// The file, parsed and checked as far as that goes without building it. UserError names the file and what is wrong.
std::shared_ptr<const pb::ModelProto> parse_model(const std::filesystem::path& path);
// The same from memory; `name` stands for it in messages.
std::shared_ptr<const pb::ModelProto> parse_model(std::span<const std::byte> bytes, const std::string& name);

class OnnxModel final : public Model {
 public:
  explicit OnnxModel(const std::string& path);
  OnnxModel(std::shared_ptr<const pb::ModelProto> model, const std::string& path);

  std::string name() const override { return path_.string(); }
  std::int64_t batch() const override;
  void build(Builder& g, const BuildRequest& request) const override;
  std::int64_t bound(std::string_view input) const override;
  std::vector<std::string> notes() const override;
  void save(const std::string& path, const BuildRequest& request, const WeightReader& weight) const override;

 private:
  std::map<std::string, Shape> input_shapes(const BuildRequest& request) const;

  std::filesystem::path path_;
  std::shared_ptr<const pb::ModelProto> model_;
  std::shared_ptr<ExternalFiles> files_;
  mutable std::int64_t classes_ = 0;  // of the target, known once a graph was built
};

using ValuesOf = std::function<std::string(const pb::TensorProto&)>;

// The model with its initializers filled: in its own file where that can hold them and none lay elsewhere, else the
// large ones in PATH.data, or in PATH.data.2 where PATH.data is that of the model which is replaced.
void write_filled(pb::ModelProto& model, const std::filesystem::path& path, const ValuesOf& read);

// `model` with these weights. Where its values lay in another file they do so again.
void write_model(const pb::ModelProto& model, ExternalFiles& files, const std::filesystem::path& path,
                 const WeightReader& weight);

}  // namespace neap::onnx
