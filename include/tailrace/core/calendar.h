// What is the date, for code that must not ask the machine?
//
// Calendar time meets the world's own stamps: a metric's age, a lease's renewal. It may jump; what
// has to wait or to time out uses MonoTime (core/time.h).
#pragma once

namespace tailrace {

class Calendar {
 public:
  virtual ~Calendar() = default;
  /// Seconds since the Unix epoch.
  virtual double unix_s() const = 0;
};

/// The machine's. Any thread.
class SystemCalendar final : public Calendar {
 public:
  double unix_s() const override;
};

/// Moves only when told. One thread.
class ManualCalendar final : public Calendar {
 public:
  explicit ManualCalendar(double unix_s) : unix_s_(unix_s) {}
  double unix_s() const override { return unix_s_; }
  void set(double unix_s) { unix_s_ = unix_s; }

 private:
  double unix_s_;
};

}  // namespace tailrace
