#include "tailrace/length/residual_table.h"

#include <algorithm>
#include <cmath>

#include "tailrace/core/check.h"

namespace tailrace::length {
namespace {

// Up to this much probability of ending within a quantum, a rank is told by the hazard in its
// middle alone: the difference of two survivals would lose digits, and the law is flat enough.
constexpr double kFlatQuantum = 0.05;
constexpr double kQuantaPerCell = 8;
// A rank that is lower by this share between two stops is not looked for.
constexpr double kSmallGain = 1e-4;
// Five nodes integrate this much decay to 1e-4; what lies beyond so many e-folds does not count.
constexpr double kPieceDecay = 3;
constexpr double kPieceStep = 2.5;
constexpr double kNegligibleDecay = 12;
constexpr double kNegligible = 1e-7;
// Above this hazard per token a sum is taken term by term.
constexpr double kSteepHazard = 0.7;
constexpr int kNewtonSteps = 60;
constexpr double kFarLessThanAToken = 0.01;

/// The sum of exp(−h·k) over k < q, divided by what ends within q tokens: q drops out.
double rank_of_constant_hazard(double hazard) {
  return 1 / -std::expm1(-hazard);
}

}  // namespace

const ResidualTable::Cell& ResidualTable::cell_at(double age) const {
  const double* first = starts_.data();
  std::size_t count = starts_.size();
  while (count > 1) {  // without branches to mispredict
    const std::size_t half = count / 2;
    first = first[half] <= age ? first + half : first;
    count -= half;
  }
  return cells_[static_cast<std::size_t>(first - starts_.data())];
}

const ResidualTable::Cell& ResidualTable::cell_beyond(const Cell& cell, double age) const {
  constexpr std::size_t kNear = 4;
  const auto here = static_cast<std::size_t>(&cell - cells_.data());
  const std::size_t last = std::min(here + kNear, starts_.size() - 1);
  for (std::size_t i = here; i < last; ++i) {
    if (starts_[i + 1] > age) return cells_[i];
  }
  return cell_at(age);
}

double ResidualTable::log_alive(const Cell& cell, double t) {
  const auto& c = cell.log_alive;
  return c[0] + t * (c[1] + t * (c[2] + t * c[3]));
}

double ResidualTable::hazard(const Cell& cell, double t) {
  const auto& c = cell.log_alive;
  return -(c[1] + t * (2 * c[2] + t * (3 * c[3]))) / cell.width;
}

/// The survival at an age, and the sum of survivals from there on.
ResidualTable::Point ResidualTable::point_at(const Cell& cell, double age) {
  const double t = (age - cell.from) / cell.width;
  const double alive = std::exp(log_alive(cell, t));
  const double tokens = cell.from + cell.width - age;
  if (!(tokens > 1)) return {alive, cell.rest_after + alive};
  return {alive, cell.rest_after + sum_to_end(cell, t, alive)};
}

/// The sum of the survival over what is left of a cell beyond t: Gauss-Lobatto with five nodes on
/// pieces that decay by some e-folds, and the ends that Euler and Maclaurin add; where it decays
/// within a token, term by term.
double ResidualTable::sum_to_end(const Cell& cell, double t, double alive) {
  if (hazard(cell, t) > kSteepHazard) return sum_by_tokens(cell, t, alive);
  const double log_first = log_alive(cell, t);
  const double log_last = log_alive(cell, 1);  // of alive_after
  double ends = alive * (0.5 + hazard(cell, t) / 12);
  double integral = 0;
  double log_here = log_first;
  double here = alive;
  for (;;) {
    double to = 1;
    double log_to = log_last;
    if (log_here - log_last > kPieceDecay) {
      to = std::min(1.0, t + kPieceStep / (hazard(cell, t) * cell.width));
      log_to = log_alive(cell, to);
    }
    constexpr double kInner = 0.654653670707977144;  // √(3/7)
    const double half = 0.5 * (to - t);
    const double middle = t + half;
    const double inner = std::exp(log_alive(cell, middle - kInner * half)) +
                         std::exp(log_alive(cell, middle + kInner * half));
    const double centre = std::exp(log_alive(cell, middle));
    const double there = to >= 1 ? cell.alive_after : std::exp(log_to);
    integral += (to - t) * (9 * (here + there) + 49 * inner + 64 * centre);
    if (to >= 1) {
      ends -= there * (0.5 + hazard(cell, 1) / 12);
      break;
    }
    if (log_first - log_to > kNegligibleDecay) break;
    t = to;
    here = there;
    log_here = log_to;
  }
  return integral * cell.width / 180 + ends;
}

double ResidualTable::sum_by_tokens(const Cell& cell, double t, double alive) {
  const double step = 1 / cell.width;
  const double enough = alive * kNegligible;
  double sum = 0;
  for (double term = alive; t < 1 - step / 2 && term > enough;
       term = std::exp(log_alive(cell, t))) {
    sum += term;
    t += step;
  }
  return sum;
}

/// The first corner from `stop` on at which the hull turns away from the line to it, and the slope
/// of that line: a tangent.
double ResidualTable::rank_to_tangent(const std::vector<Stop>& stops, const Point& from,
                                      std::uint32_t stop, std::uint32_t* tangent) {
  const auto turns_towards = [&](const Stop& s) {
    return s.edge * (from.alive - s.alive) < from.rest - s.rest;
  };
  while (turns_towards(stops[stop])) {
    const Stop& s = stops[stop];
    stop = turns_towards(stops[s.jump]) ? s.jump : s.next;
  }
  *tangent = stop;
  return (from.rest - stops[stop].rest) / (from.alive - stops[stop].alive);
}

/// Where inside a cell, on the real axis, ln P(Xd > age) falls to `target`; the cell's end if it
/// does not.
double ResidualTable::falls_to(const Cell& cell, double target) {
  double low = 0;
  double high = 1;
  if (cell.width <= 1 || log_alive(cell, high) > target) return cell.from + cell.width;
  double t = (target - cell.log_alive[0]) / (log_alive(cell, 1) - cell.log_alive[0]);
  for (int i = 0; i < kNewtonSteps; ++i) {
    const double above = log_alive(cell, t) - target;
    (above > 0 ? low : high) = t;
    const double guess = t + above / (hazard(cell, t) * cell.width);
    const double to = guess > low && guess < high ? guess : 0.5 * (low + high);
    const double step = std::fabs(to - t) * cell.width;
    t = to;
    if (step < kFarLessThanAToken) break;
  }
  return cell.from + t * cell.width;
}

double ResidualTable::within(double age) const {
  return std::min(age, end_ - 1);
}

double ResidualTable::survival(Tokens age) const {
  const auto a = static_cast<double>(age.count());
  TAILRACE_CHECK(a >= 0 && a < cap_);
  if (a >= end_) return 0;
  const Cell& cell = cell_at(a);
  return std::exp(log_alive(cell, (a - cell.from) / cell.width));
}

double ResidualTable::mean_residual(Tokens age) const {
  const auto a = static_cast<double>(age.count());
  TAILRACE_CHECK(a >= 0 && a < cap_);
  const Point p = point_at(cell_at(within(a)), within(a));
  return std::clamp(p.rest / p.alive, 1.0, cap_ - a);
}

double ResidualTable::gittins_rank(Tokens age) const {
  const auto asked = static_cast<double>(age.count());
  TAILRACE_CHECK(asked >= 0 && asked < cap_);
  const double a = within(asked);
  const Cell& cell = cell_at(a);
  const Point from = point_at(cell, a);
  const double to_the_end = std::clamp(from.rest / from.alive, 1.0, cap_ - asked);
  const double first = a + quantum_;
  if (!(first < end_)) return to_the_end;

  // Serving exactly one quantum.
  double best = to_the_end;
  const Cell* cell_of_first = &cell;
  const double h = hazard(cell, (a + 0.5 * quantum_ - cell.from) / cell.width);
  if (quantum_ * kQuantaPerCell <= cell.width && first < cell.from + cell.width &&
      h * quantum_ <= kFlatQuantum) {
    if (h > 0) best = std::min(best, rank_of_constant_hazard(h));
  } else {
    cell_of_first = &cell_beyond(cell, first);
    const Point after = point_at(*cell_of_first, first);
    const double finished = from.alive - after.alive;
    if (finished > 0) best = std::min(best, (from.rest - after.rest) / finished);
  }

  // Serving longer: to a corner of the hull, or between two where it is smooth there.
  std::uint32_t stop = cell_of_first->first_stop;
  while (stops_[stop].at < first) --stop;
  const double rank = rank_to_tangent(stops_, from, stop, &stop);
  best = std::min(best, rank);
  const double beside = least_beside(stops_[stop], rank, from, first);
  if (beside != stops_[stop].at && beside < end_) {
    const Point p = point_at(cell_beyond(*cell_of_first, beside), beside);
    best = std::min(best, (from.rest - p.rest) / (from.alive - p.alive));
  }
  return best;
}

/// The length beside a corner at which the rank is least, by one step of Newton's method on r(b) =
/// [R(a) − R(b)]/[S(a) − S(b)]; the corner itself where that gains too little to be worth a look.
double ResidualTable::least_beside(const Stop& corner, double rank, const Point& from,
                                   double first) {
  if (!(corner.fall > 0)) return corner.at;
  const double finished = from.alive - corner.alive;
  const double miss = 1 - rank * corner.hazard;
  const double slope = corner.alive * miss / finished;
  const double bend =
      corner.alive * (rank * corner.fall - corner.hazard * (miss + 2 * slope)) / finished;
  if (!(slope * slope > 2 * kSmallGain * rank * bend)) return corner.at;
  const double best = std::round(corner.at - slope / bend);
  return best > first && best < 2 * corner.at - first ? best : corner.at;
}

Tokens ResidualTable::residual_quantile(double p, Tokens age) const {
  const auto asked = static_cast<double>(age.count());
  TAILRACE_CHECK(p > 0 && p < 1 && asked >= 0 && asked < cap_);
  const double a = within(asked);
  const Cell& here = cell_at(a);
  const double target = log_alive(here, (a - here.from) / here.width) + std::log1p(-p);
  // The last cell that still begins above the target, and the place inside it.
  const Cell* cell = &here;
  auto count = static_cast<std::size_t>(cells_.data() + cells_.size() - cell);
  while (count > 1) {
    const std::size_t half = count / 2;
    cell = cell[half].log_alive[0] > target ? cell + half : cell;
    count -= half;
  }
  const double more = std::clamp(std::ceil(falls_to(*cell, target)) - a, 1.0, cap_ - asked);
  return Tokens(static_cast<std::int64_t>(more));
}

std::size_t ResidualTable::bytes() const {
  return sizeof(*this) + starts_.capacity() * sizeof(double) + cells_.capacity() * sizeof(Cell) +
         stops_.capacity() * sizeof(Stop);
}

}  // namespace tailrace::length
