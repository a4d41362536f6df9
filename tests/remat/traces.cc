#include "tests/remat/traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "neap/error.h"
#include "tests/remat/tape.h"

namespace neap::remat {
namespace {

constexpr double kFlopMs = 1e-9;     // 1 TFLOP/s
constexpr double kElementMs = 4e-8;  // one pass over an element: 100 GB/s
constexpr Backward kReadsNothing = {.reads_inputs = false, .factor = 1};
constexpr Backward kReadsInput = {.reads_inputs = true, .factor = 1.5};
constexpr Backward kReadsOutput = {.reads_inputs = false, .reads_output = true, .factor = 1.5};

// Images: batch × channels × side².
struct Image {
  Var v;
  std::int64_t channels = 0;
  std::int64_t side = 0;
};

class Net : public Tape {
 public:
  explicit Net(std::int64_t batch) : batch_(batch) {}
  std::int64_t elements(std::int64_t channels, std::int64_t side) const { return batch_ * channels * side * side; }

  Image conv(const Image& x, std::int64_t channels, int kernel, int stride = 1) {
    const std::int64_t side = x.side / stride;
    const Var w = weight(fmt::format("w{}", weights_++), channels * x.channels * kernel * kernel);
    const std::int64_t n = elements(channels, side);
    const double ms = 2.0 * static_cast<double>(n * x.channels * kernel * kernel) * kFlopMs;
    return {op("conv", {x.v, w}, n, ms, {.factor = 2}), channels, side};
  }
  Image norm(const Image& x) {
    const Var w = weight(fmt::format("w{}", weights_++), 2 * x.channels);
    return {op("bn", {x.v, w}, x.v.elements, pass(x.v, 3), kReadsInput, 2 * x.channels), x.channels, x.side};
  }
  Image relu(const Image& x) {
    return {op("relu", {x.v}, x.v.elements, pass(x.v, 2), kReadsOutput), x.channels, x.side};
  }
  Image add(const Image& x, const Image& y) {
    return {op("plus", {x.v, y.v}, x.v.elements, pass(x.v, 3), kReadsNothing), x.channels, x.side};
  }
  Image concat(const std::vector<Image>& parts) {
    std::vector<Var> vars;
    Image out{.side = parts[0].side};
    for (const Image& p : parts) {
      vars.push_back(p.v);
      out.channels += p.channels;
    }
    const std::int64_t n = elements(out.channels, out.side);
    out.v = op("cat", vars, n, static_cast<double>(n) * kElementMs * 2, kReadsNothing);
    return out;
  }
  Image pool(const Image& x, int by) {
    const std::int64_t n = elements(x.channels, x.side / by);
    return {op("pool", {x.v}, n, pass(x.v, 1), kReadsInput, n), x.channels, x.side / by};
  }
  Image up(const Image& x) {
    const std::int64_t n = x.v.elements * 4;
    return {op("up", {x.v}, n, static_cast<double>(n) * kElementMs, kReadsNothing), x.channels, x.side * 2};
  }
  Image conv_norm_relu(const Image& x, std::int64_t channels, int kernel, int stride = 1) {
    return relu(norm(conv(x, channels, kernel, stride)));
  }
  // rows × in times in × out.
  Var linear(const Var& x, std::int64_t in, std::int64_t out, const Var& w) {
    const std::int64_t rows = x.elements / in;
    return op("linear", {x, w}, rows * out, 2.0 * static_cast<double>(rows * in * out) * kFlopMs, {.factor = 2});
  }
  Var fresh_linear(const Var& x, std::int64_t in, std::int64_t out) {
    return linear(x, in, out, weight(fmt::format("w{}", weights_++), in * out));
  }
  Var map(const std::string& kind, const std::vector<Var>& x, Backward backward, std::int64_t extra = 0) {
    return op(kind, x, x[0].elements, pass(x[0], 1 + static_cast<double>(x.size())), backward, extra);
  }
  Problem end(const Image& x) {
    const Var flat = fresh_linear(pool(x, static_cast<int>(x.side)).v, x.channels, 1000);
    return finish(op("loss", {flat}, 1, pass(flat, 2), kReadsInput));
  }
  static double pass(const Var& x, double times) { return static_cast<double>(x.elements) * times * kElementMs; }
  std::int64_t batch() const { return batch_; }
  int count() { return weights_++; }  // for names

 private:
  std::int64_t batch_;
  int weights_ = 0;
};

int scaled(int n, double scale) { return std::max(1, static_cast<int>(std::lround(n * scale))); }

Problem resnet32(double scale) {
  Net net(128);
  Image x = net.conv_norm_relu({net.input("images", net.elements(3, 32)), 3, 32}, 16, 3);
  for (const int channels : {16, 32, 64}) {
    for (int i = 0; i < scaled(5, scale); ++i) {
      const int stride = channels > 16 && i == 0 ? 2 : 1;
      const Image y = net.norm(net.conv(net.conv_norm_relu(x, channels, 3, stride), channels, 3));
      const Image skip = stride == 1 ? x : net.norm(net.conv(x, channels, 1, 2));
      x = net.relu(net.add(y, skip));
    }
  }
  return net.end(x);
}

Problem densenet121(double scale) {
  Net net(32);
  Image x = net.pool(net.conv_norm_relu({net.input("images", net.elements(3, 128)), 3, 128}, 64, 7, 2), 2);
  const int depths[] = {6, 12, 24, 16};
  for (int block = 0; block < 4; ++block) {
    std::vector<Image> parts = {x};
    for (int i = 0; i < scaled(depths[block], scale); ++i) {
      const Image all = parts.size() == 1 ? parts[0] : net.concat(parts);
      const Image y = net.conv(net.relu(net.norm(all)), 128, 1);
      parts.push_back(net.conv(net.relu(net.norm(y)), 32, 3));
    }
    x = net.concat(parts);
    if (block < 3) x = net.pool(net.conv(net.relu(net.norm(x)), x.channels / 2, 1), 2);
  }
  return net.end(x);
}

Problem unet(double scale) {
  Net net(8);
  Image x{net.input("images", net.elements(3, 256)), 3, 256};
  std::vector<Image> skips;
  const int convs = scaled(2, scale);
  for (int level = 0; level < 4; ++level) {
    for (int i = 0; i < convs; ++i) x = net.conv_norm_relu(x, 32 << level, 3);
    skips.push_back(x);
    x = net.pool(x, 2);
  }
  for (int i = 0; i < convs; ++i) x = net.conv_norm_relu(x, 512, 3);
  for (int level = 3; level >= 0; --level) {
    x = net.concat({net.up(x), skips[static_cast<std::size_t>(level)]});
    for (int i = 0; i < convs; ++i) x = net.conv_norm_relu(x, 32 << level, 3);
  }
  return net.end(x);
}

Problem inception(double scale) {
  Net net(16);
  Image x = net.pool(net.conv_norm_relu({net.input("images", net.elements(3, 128)), 3, 128}, 64, 3, 2), 2);
  for (int i = 0; i < scaled(14, scale); ++i) {
    const Image a = net.conv_norm_relu(x, 64, 1);
    const Image b = net.conv_norm_relu(net.conv_norm_relu(x, 64, 1), 96, 3);
    const Image c = net.conv_norm_relu(net.conv_norm_relu(net.conv_norm_relu(x, 64, 1), 96, 3), 96, 3);
    x = net.concat({a, b, c});
  }
  return net.end(x);
}

Var attention(Net& net, const Var& x, std::int64_t length, std::int64_t width) {
  const std::int64_t heads = 8;
  const Var qkv = net.fresh_linear(x, width, 3 * width);
  const std::vector<Var> parts = net.views(qkv, 3);
  const std::int64_t scores = net.batch() * heads * length * length;
  const std::int64_t depth = width / heads;
  const double ms = 2.0 * static_cast<double>(scores * depth) * kFlopMs;
  const Var s = net.op("scores", {parts[0], parts[1]}, scores, ms, {.factor = 2});
  const Var scaled_scores = net.map("scale", {s}, kReadsNothing);
  const Var p = net.map("softmax", {scaled_scores}, kReadsOutput);
  const Var dropped = net.map("dropout", {p}, kReadsNothing, scores / 4);
  const Var mixed = net.op("mix", {dropped, parts[2]}, x.elements, ms, {.factor = 2});
  return net.map("dropout", {net.fresh_linear(mixed, width, width)}, kReadsNothing, x.elements / 4);
}

Problem transformer(double scale) {
  Net net(32);
  const std::int64_t length = 128;
  const std::int64_t width = 512;
  const Var tokens = net.input("tokens", net.batch() * length);
  const Var table = net.weight("table", 2000 * width);
  Var x = net.op("embed", {tokens, table}, net.batch() * length * width, 1e-3, kReadsInput);
  const auto norm = [&](const Var& v, int i) {
    const Var w = net.weight(fmt::format("ln{}", i), 2 * width);
    return net.map("ln", {v, w}, kReadsInput, 2 * net.batch() * length);
  };
  for (int i = 0; i < scaled(6, scale); ++i) {
    x = norm(net.map("plus", {x, attention(net, x, length, width)}, kReadsNothing), 2 * i);
    const Var h = net.map("gelu", {net.fresh_linear(x, width, 4 * width)}, kReadsInput);
    const Var y = net.map("dropout", {net.fresh_linear(h, 4 * width, width)}, kReadsNothing, x.elements / 4);
    x = norm(net.map("plus", {x, y}, kReadsNothing), 2 * i + 1);
  }
  const Var logits = net.fresh_linear(x, width, 2000);
  const Var logs = net.map("log_softmax", {logits}, kReadsOutput);
  return net.finish(net.op("loss", {logs}, 1, 1e-3, kReadsInput));
}

struct Cell {
  Var h;
  Var c;
};

// Gates from the sum of two products, then the usual elementwise ops, one by one.
Cell lstm_cell(Net& net, const Var& sum, const Var& c) {
  const std::vector<Var> g = net.views(sum, 4);
  const Var i = net.map("sigmoid", {g[0]}, kReadsOutput);
  const Var f = net.map("sigmoid", {g[1]}, kReadsOutput);
  const Var o = net.map("sigmoid", {g[2]}, kReadsOutput);
  const Var u = net.map("tanh", {g[3]}, kReadsOutput);
  const Var next =
      net.map("plus", {net.map("mul", {f, c}, kReadsInput), net.map("mul", {i, u}, kReadsInput)}, kReadsNothing);
  return {net.map("mul", {o, net.map("tanh", {next}, kReadsOutput)}, kReadsInput), next};
}

Problem lstm(double scale) {
  Net net(128);
  const std::int64_t width = 256;
  const Var w = net.weight("wx", width * 4 * width);
  const Var u = net.weight("wh", width * 4 * width);
  const Var embed = net.weight("we", width / 8 * width);
  Cell cell{net.input("h", net.batch() * width), net.input("c", net.batch() * width)};
  for (int t = 0; t < scaled(64, scale); ++t) {
    const Var x = net.input(fmt::format("x{}", t), net.batch() * width / 8);
    const Var wide = net.map("plus", {net.linear(x, width / 8, width, embed), cell.h}, kReadsNothing);
    const Var sum = net.map("plus", {net.linear(wide, width, 4 * width, w), net.linear(cell.h, width, 4 * width, u)},
                            kReadsNothing);
    cell = lstm_cell(net, sum, cell.c);
  }
  return net.finish(net.op("loss", {cell.h}, 1, 1e-3, kReadsInput));
}

Cell tree(Net& net, const std::vector<Var>& weights, int depth) {
  const std::int64_t width = 128;
  const std::int64_t n = net.batch() * width;
  if (depth == 0) {
    const Var x = net.input(fmt::format("leaf{}", net.count()), n);
    return lstm_cell(net, net.linear(x, width, 4 * width, weights[0]), x);
  }
  const Cell l = tree(net, weights, depth - 1);
  const Cell r = tree(net, weights, depth - 1);
  const Var sum =
      net.map("plus", {net.linear(l.h, width, 4 * width, weights[1]), net.linear(r.h, width, 4 * width, weights[2])},
              kReadsNothing);
  return lstm_cell(net, sum, net.map("plus", {l.c, r.c}, kReadsNothing));
}

Problem treelstm(double scale) {
  Net net(128);
  std::vector<Var> weights;
  for (int i = 0; i < 3; ++i) weights.push_back(net.weight(fmt::format("w{}", i), 128 * 512));
  const Cell root = tree(net, weights, scaled(5, scale));
  return net.finish(net.op("loss", {root.h}, 1, 1e-3, kReadsInput));
}

Problem chain(double scale) {
  Net net(16);
  Var x = net.input("x", 16 * 256);
  const Var w = net.weight("w", 256);
  for (int i = 0; i < scaled(1000, scale); ++i) x = net.op("layer", {x, w}, 16 * 256, 1.0, {.factor = 1.5});
  return net.finish(net.op("loss", {x, w}, 1, 1e-3, kReadsInput));
}

using Maker = Problem (*)(double);
constexpr std::pair<std::string_view, Maker> kTraces[] = {{"resnet32", resnet32},       {"densenet121", densenet121},
                                                          {"transformer", transformer}, {"lstm", lstm},
                                                          {"treelstm", treelstm},       {"unet", unet},
                                                          {"inception", inception},     {"chain", chain}};

}  // namespace

Problem make_trace(std::string_view name, double scale) {
  for (const auto& [known, make] : kTraces) {
    if (known == name) return make(scale);
  }
  throw UserError(fmt::format("there is no trace '{}'", name));
}

std::vector<std::string> trace_names() {
  std::vector<std::string> out;
  for (const auto& trace : kTraces) out.emplace_back(trace.first);
  return out;
}

}  // namespace neap::remat
