// Run-time choice among the builds of a *_simd.cc file (see cmake/isa.cmake).
//
// A pair of files shares a table of function pointers:
//   foo_simd.h:   struct FooTable { void (*run)(const float*, float*, long); };
//                 NEAP_ISA_TABLE(FooTable, foo_table)
//   foo_simd.cc:  namespace neap::NEAP_ISA_NS { const FooTable& foo_table() { static constexpr FooTable t{run}; return
//   t; } } elsewhere:    foo_table().run(src, dst, n);
#pragma once

namespace neap {

enum class Isa { kBase, kV3, kV4 };

// The best that this CPU has; NEAP_ISA=base|v3|v4 in the environment lowers it.
Isa isa();
const char* isa_name();

}  // namespace neap

#define NEAP_ISA_TABLE(Table, function)                                     \
  namespace isa_base {                                                      \
  const Table& function();                                                  \
  }                                                                         \
  namespace isa_v3 {                                                        \
  const Table& function();                                                  \
  }                                                                         \
  namespace isa_v4 {                                                        \
  const Table& function();                                                  \
  }                                                                         \
  inline const Table& function() {                                          \
    static const Table& table = isa() == Isa::kV4   ? isa_v4::function()    \
                                : isa() == Isa::kV3 ? isa_v3::function()    \
                                                    : isa_base::function(); \
    return table;                                                           \
  }
