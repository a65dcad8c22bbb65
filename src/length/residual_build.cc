// How is a ResidualTable laid out? From the end backwards, since every sum runs to the end: cells
// are halved until a cubic tells the law's survival and hazard, sums and the hull grow as they
// come.
#include <algorithm>
#include <cmath>
#include <limits>

#include "length/quadrature.h"
#include "length/student_t.h"
#include "tailrace/core/check.h"
#include "tailrace/length/binned.h"
#include "tailrace/length/residual_table.h"

namespace tailrace::length {
namespace {

// The cubic's slope may miss the hazard by this share of it, or of a part of one end per mean
// residual life where the hazard is lower than that and hardly matters.
constexpr double kHazardError = 3e-4;
constexpr double kHazardFloor = 0.05;
// A cubic with the right ends and slopes that is off by e in its middle is off in slope by 3.1·e
// per width at most.
constexpr double kSlopePerError = 3.1;
// What a survival of full precision may be off by, in its logarithm.
constexpr double kRounding = 2e-13;
// The same for ln of the survival itself.
constexpr double kAliveError = 2e-4;

constexpr double kLeastSurvival = 1e-290;
constexpr double kSteep = 1e9;         // the hazard where nothing is alive
constexpr double kNoCorner = 1e300;    // the slope of an edge that no tangent passes
constexpr double kFlat = 1e-6;         // a hazard that changes less over a cell is constant
constexpr double kWidestLog = 4;       // beyond that from a middle, powers of two are as fine
constexpr double kSmoothHazard = 0.1;  // per token
constexpr double kSmoothTokens = 8;    // narrower cells are no smooth law's
constexpr double kLargestCap = 9007199254740992.0;
constexpr std::size_t kMostCells = 16'384;
constexpr std::size_t kMostStops = 24'576;

struct Local {
  double alive = 1;
  double density = 0;
};

Local look(const LengthLaw& law, double tokens) {
  if (const LogT* t = law.as_log_t(); t != nullptr && t->nu == kTieNu) {
    constexpr double kPeak = 0.371772343732;
    const double z = standardise(*t, tokens);
    const double q = 1 + z * z / kTieNu;
    return {tie_t_survival(z), kPeak / (q * q * std::sqrt(std::sqrt(q)) * t->sigma * tokens)};
  }
  if (const Mixture* parts = law.as_mixture()) {
    const Local a = look(parts->first, tokens);
    const Local b = look(parts->second, tokens);
    const double w = parts->weight;
    return {w * a.alive + (1 - w) * b.alive, w * a.density + (1 - w) * b.density};
  }
  return {law.survival(tokens), law.density(tokens)};
}

}  // namespace

class ResidualTableBuilder {
 public:
  ResidualTableBuilder(const LengthLaw& law, double cap) : law_(law), end_(end_of(law, cap)) {}

  void build(ResidualTable& table) {
    mark(0, true);
    mark(1, true);
    mark(end_, true);
    for (double at = 2; at < end_; at *= 2) mark(at, false);
    mark_features(law_);
    std::sort(marks_.begin(), marks_.end());
    merge_marks();

    stops_.push_back({.at = end_, .edge = kNoCorner});
    depth_.push_back(0);
    Node right = node_at(marks_.back());
    if (end_ < table.cap_ && right.alive > 0) {
      rest_ = right.alive / -std::expm1(-right.hazard_before);  // the tail that is not tabulated
    }
    for (std::size_t i = marks_.size() - 1; i-- > 0;) {
      const Node left = node_at(marks_[i]);
      refine(left, right);
      right = left;
    }

    table.end_ = end_;
    table.cells_.assign(cells_.rbegin(), cells_.rend());
    table.stops_.assign(stops_.begin(), stops_.end());
    table.starts_.reserve(cells_.size());
    for (const Cell& cell : table.cells_) table.starts_.push_back(cell.from);
  }

 private:
  using Cell = ResidualTable::Cell;
  using Stop = ResidualTable::Stop;
  using Point = ResidualTable::Point;

  /// An age at which a cell ends. At a corner the hazard may jump.
  struct Mark {
    double at;
    bool corner;
    bool operator<(const Mark& other) const { return at < other.at; }
  };
  struct Node {
    double at, alive, log_alive;
    double hazard_before, hazard_after;  // just before and just after
    bool corner;
  };

  static double end_of(const LengthLaw& law, double cap) {
    if (cap <= 1 || look(law, cap - 1).alive >= kLeastSurvival) return cap;
    double low = 0;
    double high = cap;
    while (high - low > 1) {
      const double middle = std::floor(0.5 * (low + high));
      (look(law, middle).alive >= kLeastSurvival ? low : high) = middle;
    }
    return high;
  }

  void mark(double at, bool corner) {
    if (at >= 0 && at <= end_) marks_.push_back({std::round(at), corner});
  }

  void merge_marks() {
    std::size_t last = 0;
    for (std::size_t i = 1; i < marks_.size(); ++i) {
      if (marks_[i].at == marks_[last].at) {
        marks_[last].corner = marks_[last].corner || marks_[i].corner;
      } else {
        marks_[++last] = marks_[i];
      }
    }
    marks_.resize(last + 1);
  }

  /// Marks where a law may hide something between two powers of two: around its middle, in steps of
  /// its own width, and at its edges.
  void mark_features(const LengthLaw& law) {
    const auto p = law.parameters();
    switch (law.family()) {
      case Family::kLogT:
      case Family::kLogNormal:
        mark_around(p[0].value, p[1].value, kWidestLog, [](double y) { return std::exp(y); });
        break;
      case Family::kWeibull:
        mark_around(std::log(p[1].value), 1 / p[0].value, kWidestLog,
                    [](double y) { return std::exp(y); });
        break;
      case Family::kGamma: {
        const double mean = p[0].value * p[1].value;
        mark_around(mean, std::sqrt(p[0].value) * p[1].value, mean, [](double x) { return x; });
        break;
      }
      case Family::kExponential:
      case Family::kLomax:
        break;  // as smooth as their scale is long
      case Family::kBinned:
        for (const double edge : law.as_binned()->edges()) {
          mark(std::floor(edge), true);
          mark(std::ceil(edge), true);
        }
        break;
      case Family::kMixture:
        mark_features(law.as_mixture()->first);
        mark_features(law.as_mixture()->second);
        break;
    }
  }

  template <class F>
  void mark_around(double middle, double width, double widest, F&& tokens) {
    mark(tokens(middle), false);
    for (double step = width / 2; step < widest; step *= 2) {
      mark(tokens(middle - step), false);
      mark(tokens(middle + step), false);
    }
  }

  Node node_at(const Mark& mark) const {
    if (mark.at <= 0) return {0, 1, 0, 0, 0, true};
    const Local here = look(law_, mark.at);
    const double before = hazard_of(here);
    const double after =
        mark.corner
            ? hazard_of({here.alive, look(law_, std::nextafter(mark.at, kLargestCap * 2)).density})
            : before;
    return {mark.at, here.alive, std::log(std::max(here.alive, std::numeric_limits<double>::min())),
            before,  after,      mark.corner};
  }

  static double hazard_of(const Local& local) {
    return local.alive > 0 ? std::min(local.density / local.alive, kSteep) : kSteep;
  }

  static Cell cell_between(const Node& left, const Node& right) {
    const double width = right.at - left.at;
    const double fall = right.log_alive - left.log_alive;
    const double d0 = -left.hazard_after * width;
    const double d1 = -right.hazard_before * width;
    return {.from = left.at,
            .width = width,
            .log_alive = {left.log_alive, d0, 3 * fall - 2 * d0 - d1, d0 + d1 - 2 * fall}};
  }

  /// Lays cells over [left, right), the right ones first.
  void refine(const Node& left, const Node& right) {
    const double width = right.at - left.at;
    if (width > 1 && cells_.size() < kMostCells) {
      const Node middle = node_at({std::floor(0.5 * (left.at + right.at)), false});
      if (!resolved(left, middle, right)) {
        refine(middle, right);
        refine(left, middle);
        return;
      }
    }
    lay(left, right);
  }

  bool resolved(const Node& left, const Node& middle, const Node& right) const {
    const double least = std::min({left.hazard_after, middle.hazard_before, right.hazard_before});
    const Cell cell = cell_between(left, right);
    const double t = (middle.at - left.at) / cell.width;
    // What is left on average, about, at the cell's end and at its beginning.
    const double served = 0.5 * cell.width * (left.alive + right.alive);
    const double residual = std::max(rest_ / right.alive, (rest_ + served) / left.alive);
    const double floor = kHazardFloor / std::max(residual, 1.0);
    const double bump = 4 * t * (1 - t);
    const double error =
        std::fabs(ResidualTable::log_alive(cell, t) - middle.log_alive) / (bump * bump);
    if (error > kAliveError ||
        error > kRounding + kHazardError * cell.width * std::max(least, floor) / kSlopePerError)
      return false;
    const double slope_error = std::fabs(ResidualTable::hazard(cell, t) - middle.hazard_before);
    return slope_error <=
           kRounding / cell.width + kHazardError * std::max(middle.hazard_before, floor);
  }

  void lay(const Node& left, const Node& right) {
    Cell cell = cell_between(left, right);
    cell.rest_after = rest_;
    cell.alive_after = std::exp(ResidualTable::log_alive(cell, 1));
    if (cell.width > 1) stop_inside(cell);
    const Point begin = cell.width > 1 ? ResidualTable::point_at(cell, left.at)
                                       : Point{left.alive, rest_ + left.alive};
    rest_ = begin.rest;
    stop_at(left.at, begin, cell, left.corner);
    cell.first_stop = static_cast<std::uint32_t>(stops_.size() - 1);
    cells_.push_back(cell);
  }

  /// Stops within a cell, where the hazard falls; where it rises, serving on is always better.
  void stop_inside(const Cell& cell) {
    constexpr int kParts = 4;
    double before = cell.from + cell.width;
    for (int part = kParts - 1; part > 0; --part) {
      const double at = std::floor(cell.from + cell.width * part / kParts);
      const double t = (at - cell.from) / cell.width;
      if (!(at < before && at > cell.from) || bend(cell, t) >= 0 || stops_.size() >= kMostStops)
        continue;
      stop_at(at, ResidualTable::point_at(cell, at), cell, false);
      before = at;
    }
  }

  /// The derivative of the hazard, per token².
  static double bend(const Cell& cell, double t) {
    return -(2 * cell.log_alive[2] + 6 * t * cell.log_alive[3]) / (cell.width * cell.width);
  }

  void stop_at(double at, const Point& point, const Cell& cell, bool corner) {
    const double t = (at - cell.from) / cell.width;
    const double rise = bend(cell, t);
    Stop stop{.at = at, .alive = point.alive, .rest = point.rest};
    stop.hazard = ResidualTable::hazard(cell, t);
    if (!corner && cell.width >= kSmoothTokens && stop.hazard < kSmoothHazard &&
        -rise * cell.width > kFlat * stop.hazard)
      stop.fall = -rise;
    const auto last = static_cast<std::uint32_t>(stops_.size() - 1);
    const double slope = ResidualTable::rank_to_tangent(stops_, point, last, &stop.next);
    stop.edge = std::min(slope, kNoCorner);
    // Skew-binary jumps: as far again as the next corner's own two jumps, where those are alike.
    const std::uint32_t once = stops_[stop.next].jump;
    const std::uint32_t twice = stops_[once].jump;
    stop.jump =
        depth_[stop.next] - depth_[once] == depth_[once] - depth_[twice] ? twice : stop.next;
    depth_.push_back(depth_[stop.next] + 1);
    stops_.push_back(stop);
  }

  const LengthLaw& law_;
  const double end_;
  double rest_ = 0;  // sum of the survival from the left end of what is laid on
  std::vector<Mark> marks_;
  std::vector<Cell> cells_;
  std::vector<Stop> stops_;
  std::vector<std::uint32_t> depth_;  // corners from here to the end
};

ResidualTable::ResidualTable(const LengthLaw& law, Tokens cap, Tokens quantum)
    : cap_(static_cast<double>(cap.count())), quantum_(static_cast<double>(quantum.count())) {
  TAILRACE_CHECK(cap_ >= 1 && cap_ <= kLargestCap && quantum.count() >= 1);
  ResidualTableBuilder(law, cap_).build(*this);
}

}  // namespace tailrace::length
