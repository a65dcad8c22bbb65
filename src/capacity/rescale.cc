#include "tailrace/capacity/rescale.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "capacity/counts.h"

namespace tailrace::capacity {
namespace {

/// More GPUs than anybody has; sums of as many claims stay in range.
constexpr std::int64_t kGpusMax = 1'000'000'000;

struct Share {
  std::string id;
  std::int64_t floor, room;  // room: how many beyond the floor
  double weight;
  double part = 0;         // of the rest, before rounding
  std::int64_t whole = 0;  // after
};

/// Splits `rest` in proportion to the weights, nobody above his room; what one does not need goes
/// to the others.
void split(std::vector<Share>& shares, std::int64_t rest) {
  std::vector<Share*> open;
  for (Share& share : shares) {
    if (share.weight > 0 && share.room > 0) open.push_back(&share);
  }
  // Who fills his room first as the water rises: least room per weight.
  std::sort(open.begin(), open.end(), [](const Share* a, const Share* b) {
    const double left = double(a->room) * b->weight;
    const double right = double(b->room) * a->weight;
    return left != right ? left < right : a->id < b->id;
  });
  double weights =
      std::accumulate(open.begin(), open.end(), 0.0,
                      [](double sum, const Share* share) { return sum + share->weight; });
  double left = double(rest);
  for (Share* share : open) {
    const double fair = weights > 0 ? left * std::min(1.0, share->weight / weights) : 0;
    share->part = std::min(fair, double(share->room));
    left = std::max(0.0, left - share->part);
    weights -= share->weight;
  }
}

/// Whole GPUs by largest remainder, ties by id.
void round(std::vector<Share>& shares, std::int64_t rest) {
  std::int64_t to_give = 0;
  std::vector<Share*> order;
  for (Share& share : shares) {
    share.whole = static_cast<std::int64_t>(std::floor(share.part));
    if (share.weight > 0) {
      order.push_back(&share);
      to_give += share.room;
    }
  }
  to_give = std::min(rest, to_give);
  for (const Share* share : order) to_give -= share->whole;
  // Millionths of a GPU, so that equal remainders compare equal whatever the rounding.
  const auto remainder = [](const Share* share) {
    return std::llround((share->part - double(share->whole)) * 1e6);
  };
  std::sort(order.begin(), order.end(), [&remainder](const Share* a, const Share* b) {
    const auto left = remainder(a);
    const auto right = remainder(b);
    return left != right ? left > right : a->id < b->id;
  });
  for (bool given = true; given && to_give > 0;) {
    given = false;
    for (Share* share : order) {
      if (to_give <= 0 || share->whole >= share->room) continue;
      ++share->whole;
      --to_give;
      given = true;
    }
  }
}

std::int64_t gpus(double amount) {
  return amount < double(kGpusMax)
             ? static_cast<std::int64_t>(std::ceil(finite_amount(amount) * (1 - kCountSlack)))
             : kGpusMax;
}

}  // namespace

RescaleResult rescale_by_priority(std::int64_t budget, std::span<const RescaleClaim> claims) {
  double highest = 0;
  double most = 0;
  for (const RescaleClaim& claim : claims) {
    highest = std::max(highest, finite_amount(claim.priority));
    most = std::max(most, finite_amount(claim.demand));
  }
  std::vector<Share> shares;
  std::int64_t floors = 0;
  for (const RescaleClaim& claim : claims) {
    const std::int64_t floor = std::clamp<std::int64_t>(claim.floor, 0, kGpusMax);
    const std::int64_t cap =
        std::min(gpus(claim.demand), std::clamp<std::int64_t>(claim.cap, 0, kGpusMax));
    const double weight = highest > 0 && most > 0 ? finite_amount(claim.priority) / highest *
                                                        (finite_amount(claim.demand) / most)
                                                  : 0;
    shares.push_back({claim.id, floor, std::max<std::int64_t>(0, cap - floor), weight});
    floors += floor;
  }
  RescaleResult result;
  result.over_budget = floors > std::max<std::int64_t>(0, budget);
  if (!result.over_budget) {
    const std::int64_t rest = std::max<std::int64_t>(0, budget) - floors;
    split(shares, rest);
    round(shares, rest);
  }
  for (const Share& share : shares) result.targets[share.id] = share.floor + share.whole;
  return result;
}

std::map<Role, std::int64_t> split_by_role(std::int64_t total,
                                           const std::map<Role, std::int64_t>& floors,
                                           const std::map<Role, double>& weights) {
  std::vector<RescaleClaim> claims;
  const auto id = [](Role role) { return std::to_string(static_cast<int>(role)); };
  for (const auto& [role, weight] : weights) {
    const auto floor = floors.find(role);
    claims.push_back({.id = id(role),
                      .priority = finite_amount(weight),
                      .demand = double(kGpusMax),
                      .floor = floor == floors.end() ? 0 : floor->second,
                      .cap = kGpusMax});
  }
  const auto result = rescale_by_priority(total, claims);
  std::map<Role, std::int64_t> out;
  for (const auto& [role, _] : weights) out[role] = result.targets.at(id(role));
  return out;
}

}  // namespace tailrace::capacity
