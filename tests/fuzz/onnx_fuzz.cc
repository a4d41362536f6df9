// libFuzzer on the importer: any bytes either build a graph that holds together or end in a UserError. A crash, a
// finding of the sanitizers, another exception, too much memory or time is a finding. `make fuzz` runs it.
#include <cstdint>
#include <span>

#include "fuzz/mutate.h"
#include "graph/graph.h"
#include "neap/error.h"
#include "onnx/onnx_model.h"

namespace {

constexpr const char* kName = "fuzz/model.onnx";  // no such folder: external data are never found

void import(std::span<const std::byte> bytes, const std::string& loss) {
  try {
    const neap::onnx::OnnxModel model(neap::onnx::parse_model(bytes, kName), kName);
    neap::Builder g;
    model.build(g, {.batch = 2, .length = 3, .image = 4, .loss = loss});
    neap::verify(g.graph());
    model.notes();
    for (const neap::TensorId id : g.graph().with_role(neap::Role::kInput)) model.bound(g.graph().at(id).name);
  } catch (const neap::UserError&) {  // what a bad file deserves
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  import(bytes, "cross-entropy");
  return 0;
}

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

// Bytes changed at random rarely parse: most of the time the parsed model is changed instead.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  constexpr unsigned int kRawShare = 8;
  if (seed % kRawShare != 0) {
    const std::string out = neap::onnx::mutate({reinterpret_cast<const char*>(data), size}, seed);
    if (!out.empty() && out.size() <= max_size) {
      std::copy(out.begin(), out.end(), data);
      return out.size();
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
