# The importer under libFuzzer. The kernels need g++, whose coverage libFuzzer does not read: tests/fuzz/coverage.cc
# carries it over, and the linker puts that in the place of libFuzzer's own function, which only complains. Sources
# with coverage are those of the importer; the rest is the library of the sanitized build.
find_library(FUZZER_LIBRARY NAMES clang_rt.fuzzer-${CMAKE_SYSTEM_PROCESSOR}
             PATHS /usr/lib/llvm-16/lib/clang/16/lib/linux /usr/lib/clang/16/lib/linux)
if(NOT FUZZER_LIBRARY)
  return()  # scripts/setup.sh fuzz installs it
endif()
add_executable(onnx_fuzz EXCLUDE_FROM_ALL ${NEAP_ONNX_SOURCES} tests/fuzz/onnx_fuzz.cc)
target_compile_options(onnx_fuzz PRIVATE -fsanitize-coverage=trace-pc,trace-cmp)
add_library(fuzz_support OBJECT EXCLUDE_FROM_ALL tests/fuzz/coverage.cc tests/fuzz/mutate.cc)
foreach(target onnx_fuzz fuzz_support)
  target_include_directories(${target} PRIVATE include src tests)
  target_compile_definitions(${target} PRIVATE ONNX_ML=1 ONNX_NAMESPACE=onnx)
endforeach()
target_link_libraries(onnx_fuzz PRIVATE fuzz_support neap_lib ${ONNX_PROTO_LIBRARY} protobuf::libprotobuf ${FUZZER_LIBRARY})
target_link_options(onnx_fuzz PRIVATE -Wl,--wrap=__sanitizer_cov_trace_pc)
