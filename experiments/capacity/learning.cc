#include "capacity/sections.h"

namespace tailrace::accuracy {

int print_learning(std::FILE*, const Options&) {
  return 0;
}

}  // namespace tailrace::accuracy
