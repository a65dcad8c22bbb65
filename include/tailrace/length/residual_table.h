// How much of an answer is left after so many tokens, asked thousands of times a second?
//
// A ResidualTable is built once for one law, cap and quantum (some microseconds, whatever the cap)
// and then answers for any age in at most 0.2 µs, within 1e-3 of LengthLaw's exact path. It is what
// an age-aware rank of running jobs uses: their laws stay, their ages grow. Immutable, any thread.
//
// The survival is kept as exp(cubic) on cells of ages, as wide as the law is smooth and down to
// single tokens where it is not; a bin's edges end cells. Where many tokens may pass, the cubic's
// slope is the hazard to 3e-4, so sums and differences of survivals are right too, not only
// survivals. The rank is then a tangent: with P(b) = (S(b), R(b)), R the sum of S from b on, it is
// the least slope from P(age) to any P(b), b ≥ age + quantum, found on the lower hull of those
// points.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tailrace/length/length_law.h"

namespace tailrace::length {

class ResidualTable {
 public:
  /// 1 ≤ `cap` ≤ 2^53. `quantum` ≥ 1: the least service that a Gittins rank may be reckoned with;
  /// from 16 on it is never degenerate at age 0.
  ResidualTable(const LengthLaw& law, Tokens cap, Tokens quantum);

  // 0 ≤ age < cap. From the age on at which the survival is below 1e-290 (a bounded law's end, or
  // beyond all probability), survival is 0 and the others answer as just before it.

  double survival(Tokens age) const;  ///< P(Xd > age)
  double mean_residual(Tokens age) const;
  double gittins_rank(Tokens age) const;
  /// As LengthLaw::residual_quantile, within one token or 1e-3 of it; where the survival meets
  /// 1 − p to the last digit on a stretch without mass, either end of it.
  Tokens residual_quantile(double p, Tokens age) const;

  /// Some 10 to 25 kB for a law of two parameters and a cap below 100,000, under 100 kB for any
  /// cap; at most kMaxBytes, whatever the law.
  std::size_t bytes() const;
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 20;

 private:
  friend class ResidualTableBuilder;

  /// Ages from `from` to before from + width.
  struct Cell {
    double from = 0;
    double width = 1;
    std::array<double, 4> log_alive{};  // ln P(Xd > age), a cubic in (age − from)/width
    double rest_after = 0;              // sum of P(Xd > k) over k from the next cell on
    double alive_after = 0;             // P(Xd > age) at its end
    std::uint32_t first_stop = 0;       // the nearest stop at or after `from`
  };
  /// A length b at which a rank's service may end, a corner of the hull of those from b on.
  struct Stop {
    double at = 0;
    double alive = 0;  // P(Xd > b), 0 at the end
    double rest = 0;
    double edge = 0;    // slope to the next corner
    double hazard = 0;  // per token
    double fall = 0;    // of the hazard, per token², where the rank may dip between stops, else 0
    std::uint32_t next = 0;
    std::uint32_t jump = 0;  // a corner further on, for a search in logarithmic time
  };
  struct Point {
    double alive = 0;
    double rest = 0;
  };

  const Cell& cell_at(double age) const;
  /// The same for an age beyond that of `cell`, most often in one of the next.
  const Cell& cell_beyond(const Cell& cell, double age) const;
  static double log_alive(const Cell& cell, double t);
  static double hazard(const Cell& cell, double t);
  static Point point_at(const Cell& cell, double age);
  static double sum_to_end(const Cell& cell, double t, double alive);
  static double sum_by_tokens(const Cell& cell, double t, double alive);
  static double least_beside(const Stop& corner, double rank, const Point& from, double first);
  static double rank_to_tangent(const std::vector<Stop>& stops, const Point& from,
                                std::uint32_t stop, std::uint32_t* tangent);
  static double falls_to(const Cell& cell, double target);
  double within(double age) const;

  double cap_ = 1;
  double quantum_ = 1;
  double end_ = 1;              // the cap, or where the survival ends before
  std::vector<double> starts_;  // Cell::from, apart for the search
  std::vector<Cell> cells_;
  std::vector<Stop> stops_;  // from the end backwards
};

}  // namespace tailrace::length
