#include "fuzz/mutate.h"

#include <google/protobuf/stubs/logging.h>

#include <random>
#include <vector>

#include "onnx/context.h"

namespace neap::onnx {
namespace {

constexpr std::int64_t kNumbers[] = {0,    1,     2,       3,         4,         5,         7,         16,
                                     -1,   -2,    -3,      17,        64,        4096,      1 << 20,   INT32_MAX,
                                     1000, 65535, 1 << 30, 1LL << 40, 1LL << 62, INT64_MAX, INT32_MIN, INT64_MIN};
constexpr const char* kInts[] = {"kernel_shape",    "strides",      "pads",  "dilations",  "axes",  "perm",
                                 "output_padding",  "output_shape", "split", "value_ints", "shape", "scan_input_axes",
                                 "scan_output_axes"};
constexpr const char* kInteger[] = {"axis",
                                    "group",
                                    "keepdims",
                                    "to",
                                    "blocksize",
                                    "num_outputs",
                                    "hidden_size",
                                    "layout",
                                    "start",
                                    "end",
                                    "batch_dims",
                                    "ceil_mode",
                                    "upper",
                                    "k",
                                    "allowzero",
                                    "exclusive",
                                    "reverse",
                                    "largest",
                                    "num_groups",
                                    "size",
                                    "transA",
                                    "transB",
                                    "training_mode",
                                    "storage_order",
                                    "ignore_index",
                                    "align_corners",
                                    "offset_group",
                                    "batch_axis",
                                    "time_axis",
                                    "periodic",
                                    "onesided",
                                    "inverse",
                                    "dtype",
                                    "output_dtype",
                                    "block_size",
                                    "output_height",
                                    "output_width",
                                    "sampling_ratio",
                                    "antialias",
                                    "value_int",
                                    "linear_before_reset",
                                    "input_forget",
                                    "num_scan_inputs",
                                    "count_include_pad",
                                    "noop_with_empty_axes",
                                    "exclude_outside",
                                    "p"};
constexpr const char* kText[] = {"mode",         "auto_pad",    "direction", "coordinate_transformation_mode",
                                 "nearest_mode", "equation",    "reduction", "keep_aspect_ratio_policy",
                                 "approximate",  "padding_mode"};
constexpr const char* kWords[] = {"constant",   "reflect",    "edge",          "wrap",
                                  "nearest",    "linear",     "cubic",         "SAME_UPPER",
                                  "SAME_LOWER", "VALID",      "reverse",       "bidirectional",
                                  "half_pixel", "asymmetric", "align_corners", "tf_crop_and_resize",
                                  "floor",      "ij,jk->ik",  "ii->i",         "...ij,...jk->...ik",
                                  "bij->",      "none",       "sum",           "not_larger",
                                  "CRD",        "tanh",       "max",           "round_prefer_ceil"};
constexpr const char* kReal[] = {"alpha", "beta", "epsilon", "momentum", "clip", "gamma", "lambd", "cubic_coeff_a"};

class Mutator {
 public:
  Mutator(pb::ModelProto& model, unsigned int seed) : graph_(*model.mutable_graph()), random_(seed) {
    while (chance(5)) enter();
  }

  void change() {
    switch (below(12)) {
      case 0: return set_op();
      case 1:
      case 2: return set_attribute();
      case 3:
      case 4: return rewire();
      case 5:
      case 6: return set_values();
      case 7: return set_dims();
      case 8: return set_input();
      case 9: return copy_node();
      case 10: return drop();
      default: return set_type();
    }
  }

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }
  bool chance(std::size_t one_in) { return below(one_in) == 0; }
  std::int64_t number() { return chance(4) ? kNumbers[below(std::size(kNumbers))] : kNumbers[below(9)]; }
  template <std::size_t kCount>
  std::string one_of(const char* const (&list)[kCount]) {
    return list[below(kCount)];
  }

  template <class Field>
  auto* any(Field* field) {
    return field->empty() ? nullptr : field->Mutable(static_cast<int>(below(static_cast<std::size_t>(field->size()))));
  }
  pb::NodeProto* node() { return any(graph_.get().mutable_node()); }
  pb::TensorProto* tensor() { return any(graph_.get().mutable_initializer()); }

  // Into a subgraph, where there is one.
  void enter() {
    pb::NodeProto* n = node();
    if (n == nullptr) return;
    for (pb::AttributeProto& a : *n->mutable_attribute()) {
      if (a.has_g()) graph_ = *a.mutable_g();
    }
  }

  std::string a_name() {
    std::vector<std::string> names = {""};
    for (const auto& i : graph_.get().input()) names.push_back(i.name());
    for (const auto& t : graph_.get().initializer()) names.push_back(t.name());
    for (const auto& n : graph_.get().node()) names.insert(names.end(), n.output().begin(), n.output().end());
    return names[below(names.size())];
  }

  void set_op() {
    static const auto ops = [] {
      std::vector<std::string_view> out;
      for (const auto rules : all_rules()) {
        for (const RuleEntry& rule : rules) out.push_back(rule.op);
      }
      return out;
    }();
    if (pb::NodeProto* n = node()) n->set_op_type(std::string(ops[below(ops.size())]));
  }

  pb::AttributeProto& attribute(pb::NodeProto& n, const std::string& name, pb::AttributeProto::AttributeType type) {
    for (int i = 0; i < n.attribute_size(); ++i) {
      if (n.attribute(i).name() == name) n.mutable_attribute()->DeleteSubrange(i, 1);
    }
    pb::AttributeProto& a = *n.add_attribute();
    a.set_name(name);
    a.set_type(type);
    return a;
  }

  void set_attribute() {
    pb::NodeProto* n = node();
    if (n == nullptr) return;
    pb::AttributeProto* old = any(n->mutable_attribute());
    if (old != nullptr && old->ints_size() > 0 && chance(2)) {
      old->set_ints(static_cast<int>(below(static_cast<std::size_t>(old->ints_size()))), number());
      if (chance(4)) old->add_ints(number());
    } else if (old != nullptr && old->has_i() && chance(2)) {
      old->set_i(number());
    } else if (chance(2)) {
      attribute(*n, one_of(kInteger), pb::AttributeProto::INT).set_i(number());
    } else if (chance(2)) {
      pb::AttributeProto& a = attribute(*n, one_of(kInts), pb::AttributeProto::INTS);
      for (std::size_t i = below(6); i > 0; --i) a.add_ints(number());
    } else if (chance(2)) {
      attribute(*n, one_of(kText), pb::AttributeProto::STRING).set_s(one_of(kWords));
    } else {
      attribute(*n, one_of(kReal), pb::AttributeProto::FLOAT).set_f(static_cast<float>(number()));
    }
  }

  void rewire() {
    pb::NodeProto* n = node();
    if (n == nullptr) return;
    if (n->input_size() == 0 || chance(4)) {
      n->add_input(a_name());
    } else {
      *any(n->mutable_input()) = a_name();
    }
  }

  // Integers are shapes, axes and the like: those matter most.
  void set_values() {
    pb::TensorProto* t = tensor();
    if (t == nullptr) return;
    if (t->data_type() != pb::TensorProto::INT64 || t->dims_size() > 1 || chance(3)) {
      std::string& raw = *t->mutable_raw_data();
      if (!raw.empty()) raw[below(raw.size())] = static_cast<char>(random_());
      return;
    }
    const std::size_t count = t->dims_size() == 0 ? 1 : below(5);
    std::vector<std::int64_t> values(count);
    for (std::int64_t& v : values) v = number();
    if (t->dims_size() > 0) t->set_dims(0, static_cast<std::int64_t>(count));
    t->clear_int64_data();
    t->set_raw_data(values.data(), values.size() * sizeof(std::int64_t));
  }

  // Axes split, joined or added, mostly so that the values still fit.
  void set_dims() {
    pb::TensorProto* t = tensor();
    if (t == nullptr) return;
    const int rank = t->dims_size();
    const int at = static_cast<int>(below(static_cast<std::size_t>(rank)));
    if (rank == 0 || chance(3)) return t->add_dims(1);
    if (chance(5)) return t->set_dims(at, number());
    if (t->dims(at) % 2 == 0 && chance(2)) {
      t->set_dims(at, t->dims(at) / 2);
      return t->add_dims(2);
    }
    std::swap(*t->mutable_dims()->Mutable(at), *t->mutable_dims()->Mutable(rank - 1));
  }

  void set_input() {
    pb::ValueInfoProto* input = any(graph_.get().mutable_input());
    if (input == nullptr) return;
    auto* shape = input->mutable_type()->mutable_tensor_type()->mutable_shape();
    auto* dim = any(shape->mutable_dim());
    if (dim == nullptr || chance(3)) dim = shape->add_dim();
    dim->set_dim_value(number());
  }

  void set_type() {
    const int type = static_cast<int>(below(14));
    pb::TensorProto* t = tensor();
    if (t != nullptr && chance(2)) return t->set_data_type(type);
    pb::ValueInfoProto* input = any(graph_.get().mutable_input());
    if (input != nullptr) input->mutable_type()->mutable_tensor_type()->set_elem_type(type);
  }

  void copy_node() {
    const pb::NodeProto* n = node();
    if (n == nullptr) return;
    pb::NodeProto copy = *n;
    for (std::string& name : *copy.mutable_output()) name += "_";
    *graph_.get().add_node() = copy;
    if (chance(2) && graph_.get().output_size() > 0)
      any(graph_.get().mutable_output())->set_name(copy.output_size() > 0 ? copy.output(0) : "");
    // In front of a random other, so that later nodes can read it.
    auto* nodes = graph_.get().mutable_node();
    const int to = static_cast<int>(below(static_cast<std::size_t>(nodes->size())));
    for (int i = nodes->size() - 1; i > to; --i) nodes->SwapElements(i, i - 1);
  }

  void drop() {
    pb::NodeProto* n = node();
    if (n == nullptr) return;
    if (n->attribute_size() > 0 && chance(2)) return n->mutable_attribute()->RemoveLast();
    if (n->input_size() > 0 && chance(2)) return n->mutable_input()->RemoveLast();
    if (chance(2)) n->add_output(n->name() + "_more");
  }

  std::reference_wrapper<pb::GraphProto> graph_;
  std::minstd_rand random_;
};

}  // namespace

std::string mutate(std::string_view bytes, unsigned int seed) {
  const google::protobuf::LogSilencer quiet;
  pb::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return {};
  const unsigned int changes = 1 + seed / 8 % 3;
  for (unsigned int i = 0; i < changes; ++i) Mutator(model, seed * 2654435761U + i).change();
  return model.SerializeAsString();
}

}  // namespace neap::onnx
