# Kernels for NVIDIA GPUs (NEAP_CUDA): sources *.cu, *_cuda.cc, *_cudnn.cc and src/device/cuda/. AUTO takes them in when
# nvcc, cuBLASLt and cuDNN 9 are found.
set(NEAP_HAS_CUDA OFF)
if(NOT NEAP_CUDA STREQUAL "OFF")
  find_program(NEAP_NVCC nvcc PATHS /usr/local/cuda/bin)
  if(NEAP_NVCC AND NOT DEFINED CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER ${NEAP_NVCC})
  endif()
  find_package(CUDAToolkit 13 QUIET)
  find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
  find_path(CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(NEAP_NVCC AND CUDAToolkit_FOUND AND CUDNN_LIBRARY AND CUDNN_INCLUDE)
    set(NEAP_HAS_CUDA ON)
  elseif(NEAP_CUDA STREQUAL "ON")
    message(FATAL_ERROR "NEAP_CUDA=ON needs nvcc, the CUDA 13 toolkit and cuDNN 9")
  endif()
endif()
if(NOT NEAP_HAS_CUDA)
  return()
endif()

set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # before enable_language, else both runtimes are linked
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90)
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know nvcc's
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

file(GLOB_RECURSE NEAP_CUDA_SOURCES CONFIGURE_DEPENDS src/*.cu src/*_cuda.cc src/*_cudnn.cc src/device/cuda/*.cc)
list(FILTER NEAP_CUDA_SOURCES EXCLUDE REGEX "_test\\.(cc|cu)$")
# What fused programs are compiled with at run time.
include(cmake/embed.cmake)
neap_embed(${CMAKE_BINARY_DIR}/tiled_texts.cc ops/tiled/tiled_texts.h
           kRandomText src/device/cuda/random.cuh kBroadcastPlanText src/ops/elementwise/broadcast_plan.h
           kUnaryTypesText src/ops/unary/unary_simd.h kUnaryText src/ops/unary/unary_formulas.cuh
           kBinaryTypesText src/ops/binary/binary_simd.h kBinaryText src/ops/binary/binary_formulas.cuh
           kGateTypesText src/ops/relu/gate_simd.h kGateText src/ops/relu/gate_formulas.cuh)
list(APPEND NEAP_CUDA_SOURCES ${CMAKE_BINARY_DIR}/tiled_texts.cc)

# Instructions that only cards of compute capability 9.0 have: *_hopper.cu are compiled for those alone.
set(NEAP_HOPPER_SOURCES ${NEAP_CUDA_SOURCES})
list(FILTER NEAP_HOPPER_SOURCES INCLUDE REGEX "_hopper\\.cu$")
list(FILTER NEAP_CUDA_SOURCES EXCLUDE REGEX "_hopper\\.cu$")
add_library(neap_cuda_hopper OBJECT ${NEAP_HOPPER_SOURCES})
set_target_properties(neap_cuda_hopper PROPERTIES CUDA_ARCHITECTURES OFF)
target_compile_options(neap_cuda_hopper PRIVATE -gencode=arch=compute_90a,code=sm_90a)
add_library(neap_cuda_kernels STATIC ${NEAP_CUDA_SOURCES} $<TARGET_OBJECTS:neap_cuda_hopper>)
set_target_properties(neap_cuda_kernels PROPERTIES OUTPUT_NAME neap_cuda)
foreach(target neap_cuda_kernels neap_cuda_hopper)
  target_include_directories(${target} PRIVATE src ${CUDNN_INCLUDE})
  # As on the CPU, a product and a sum become one rounding only where the code says fma.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false --extended-lambda -lineinfo
                         --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra,-Wno-unused-parameter,-Wno-missing-field-initializers>)
endforeach()
target_include_directories(neap_cuda_hopper PRIVATE $<TARGET_PROPERTY:neap_lib,INTERFACE_INCLUDE_DIRECTORIES>)
target_compile_definitions(neap_cuda_hopper PRIVATE $<TARGET_PROPERTY:neap_lib,INTERFACE_COMPILE_DEFINITIONS>)
target_link_libraries(neap_cuda_kernels PUBLIC neap_lib PRIVATE CUDA::cudart $<BUILD_INTERFACE:${CUDNN_LIBRARY}>
                      $<INSTALL_INTERFACE:neap::cudnn> ${CMAKE_DL_LIBS})
add_library(neap_cuda INTERFACE)
target_link_libraries(neap_cuda INTERFACE $<BUILD_INTERFACE:$<LINK_LIBRARY:WHOLE_ARCHIVE,neap_cuda_kernels>>
                      $<INSTALL_INTERFACE:$<LINK_LIBRARY:WHOLE_ARCHIVE,neap::cuda_kernels>>)
