// The classes that protobuf generates for ONNX files, under a short name.
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <onnx/onnx_pb.h>
#pragma GCC diagnostic pop

namespace neap::onnx {

namespace pb = ::onnx;

}  // namespace neap::onnx
