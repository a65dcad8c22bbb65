#include "observe/series_history.h"

#include <algorithm>
#include <cmath>

#include "observe/engine_tables.h"

namespace tailrace::observe {
namespace {

/// Exporters round the second at which they began.
constexpr double kStartRoundingSeconds = 1;

/// Counters and the parts of histograms, by how exporters name them.
bool is_count(std::string_view name) {
  return name.ends_with("_total") || name.ends_with("_count") || name.ends_with("_sum") ||
         name.ends_with("_bucket");
}

bool earlier(const Point& a, double time_s) {
  return a.time_s < time_s;
}

}  // namespace

double Track::newest_s() const {
  const double number = points.empty() ? -HUGE_VAL : points.back().time_s;
  return std::max(number, no_number_s.value_or(-HUGE_VAL));
}

bool Track::says_number() const {
  return !points.empty() && points.back().time_s >= no_number_s.value_or(-HUGE_VAL);
}

void SeriesHistory::add(const Series& series, double now_s, HistoryNotes& notes) {
  auto found = tracks_.find(series.key);
  const bool count = is_count(series.key.name);
  for (const Point& point : series.points) {
    if (!std::isfinite(point.time_s)) continue;
    const double ahead = point.time_s - now_s;
    if (ahead > notes.ahead_s) {
      notes.ahead_s = ahead;
      notes.ahead_subject = series.key.name;
    }
    if (ahead > limits_.future_s) {
      ++notes.future;
      continue;
    }
    if (found == tracks_.end()) {
      if (tracks_.size() >= limits_.series_max) {
        ++notes.refused;
        continue;
      }
      found = tracks_.emplace(series.key, Track{}).first;
    }
    Track& track = found->second;
    const bool number = std::isfinite(point.value);
    const bool negative = count && number && point.value < 0;
    const bool beyond = count && number && point.value > kCountMost;
    if (negative) {
      ++notes.negative;
      notes.negative_subject = series.key.name;
    }
    if (beyond) {
      ++notes.beyond;
      notes.beyond_subject = series.key.name;
    }
    if (!number) {
      ++notes.no_number;
      notes.no_number_subject = series.key.name;
    }
    track.first_s = std::min(track.first_s, point.time_s);
    if (negative || beyond || !number) {
      track.no_number_s = std::max(point.time_s, track.no_number_s.value_or(point.time_s));
      continue;
    }
    auto& points = track.points;
    const auto at = std::lower_bound(points.begin(), points.end(), point.time_s, earlier);
    if (at != points.end() && at->time_s == point.time_s) {
      if (at->value != point.value) {
        ++notes.contradicts;
        notes.contradicts_subject = series.key.name;
        at->value = std::max(at->value, point.value);  // whichever came first
      }
      continue;
    }
    points.insert(at, point);
    if (points.size() > limits_.points_max) points.erase(points.begin());
  }
  if (found != tracks_.end()) trim(found->first, found->second);
}

void SeriesHistory::trim(const SeriesKey& key, Track& track) const {
  auto& points = track.points;
  if (points.empty()) return;
  const bool start = key.name == kProcessStart, count = is_count(key.name);
  for (std::size_t i = 1; i < points.size(); ++i) {
    const double rise = points[i].value - points[i - 1].value;
    if ((start && std::abs(rise) > kStartRoundingSeconds) || (count && rise < 0)) {
      track.began_s = std::max(track.began_s, points[i].time_s);
    }
  }
  // A series that goes on without numbers gets older too: its last increase is not that of now.
  const double edge = track.newest_s() - limits_.window_s;
  auto inside =
      std::upper_bound(points.begin(), points.end(), edge,
                       [](double time_s, const Point& point) { return time_s < point.time_s; });
  if (inside != points.begin()) points.erase(points.begin(), inside - 1);
}

void SeriesHistory::forget_before(double time_s,
                                  const std::function<bool(const SeriesKey&, const Track&)>& keep) {
  std::erase_if(tracks_, [&](const auto& entry) {
    return entry.second.newest_s() < time_s && !(keep && keep(entry.first, entry.second));
  });
}

std::span<const Point> after_gap(std::span<const Point> points, double gap_s) {
  for (std::size_t i = points.size(); i > 1; --i) {
    if (points[i - 1].time_s - points[i - 2].time_s > gap_s) return points.subspan(i - 1);
  }
  return points;
}

std::optional<double> value_at(std::span<const Point> points, double time_s) {
  const auto after =
      std::upper_bound(points.begin(), points.end(), time_s,
                       [](double time, const Point& point) { return time < point.time_s; });
  if (after == points.begin()) return std::nullopt;
  return std::prev(after)->value;
}

bool restarted(std::span<const Point> starts, double from_s, double to_s) {
  const auto before = value_at(starts, from_s), now = value_at(starts, to_s);
  return before && now && std::abs(*now - *before) > kStartRoundingSeconds;
}

std::optional<Increase> increase_of(std::span<const Point> points, std::span<const Point> starts) {
  Increase out;
  const Point* before = nullptr;
  bool two = false;
  for (const Point& point : points) {
    if (point.value < 0) continue;
    if (before == nullptr) {
      out.from_s = point.time_s;
    } else {
      const bool fresh =
          point.value < before->value || restarted(starts, before->time_s, point.time_s);
      out.amount += fresh ? point.value : point.value - before->value;
      if (fresh) out.resets_s.push_back(point.time_s);
      two = true;
    }
    before = &point;
    out.to_s = point.time_s;
  }
  if (!two || !std::isfinite(out.amount) || !std::isfinite(out.per_s())) return std::nullopt;
  return out;
}

}  // namespace tailrace::observe
