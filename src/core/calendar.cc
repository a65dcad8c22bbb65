#include "tailrace/core/calendar.h"

#include <chrono>

namespace tailrace {

double SystemCalendar::unix_s() const {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace tailrace
