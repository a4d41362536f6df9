#include "pool/spill_store.h"

namespace neap {

SpillStoreMaker& spill_store_maker() {
  static SpillStoreMaker maker = nullptr;
  return maker;
}

}  // namespace neap
