#include "predict/tenant_shares.h"

#include <algorithm>

#include "tailrace/core/rng.h"

namespace tailrace::predict {
namespace {

constexpr std::size_t kWays = 8;
// "Of late" is the last few thousand observations: every kPeriod of them counts shrink by kFade.
constexpr std::uint32_t kPeriod = 256;
constexpr float kFade = 0.9F;
constexpr float kForgotten = 0.5F;  // a count below it is none

}  // namespace

// A stranger takes the place of the least active tenant of its set, whose count falls by one at
// each knock: a table full of names used once has no hold on it.
TenantShares::Tenant& TenantShares::find_or_claim(std::uint64_t key) {
  const std::size_t first = (key % (kTenants / kWays)) * kWays;
  Tenant* poorest = &tenants_[first];
  for (std::size_t i = first; i < first + kWays; ++i) {
    if (tenants_[i].key == key) return tenants_[i];
    if (tenants_[i].count < poorest->count) poorest = &tenants_[i];
  }
  if (poorest->key == 0) active_ += 1;
  if (poorest->key == 0 || poorest->count <= 1) {
    total_ -= static_cast<double>(poorest->count);
    *poorest = {key, 0, 0};
  } else {
    poorest->count -= 1;  // resists; the stranger shares its place for now
    total_ -= 1;
  }
  return *poorest;
}

double TenantShares::weight_of(double own) const {
  if (!(active_ > 1) || !(own > 0)) return 1;
  const double others = (total_ - own) / (active_ - 1);
  return std::clamp(others / own, kLeastWeight, 1.0);
}

double TenantShares::weight(std::string_view name) const {
  const std::uint64_t hash = stable_hash(name);
  const std::uint64_t key = hash == 0 ? 1 : hash;
  const std::size_t first = (key % (kTenants / kWays)) * kWays;
  for (std::size_t i = first; i < first + kWays; ++i) {
    if (tenants_[i].key == key) return weight_of(static_cast<double>(tenants_[i].count));
  }
  return 1;
}

TenantShares::Share TenantShares::observe(std::string_view name) {
  const std::uint64_t hash = stable_hash(name);
  Tenant& tenant = find_or_claim(hash == 0 ? 1 : hash);
  tenant.count += 1;
  total_ += 1;
  Share share;
  share.weight = weight_of(static_cast<double>(tenant.count));
  tenant.carry += static_cast<float>(share.weight);
  share.sampled = tenant.carry >= 1;
  if (share.sampled) tenant.carry -= 1;
  if (++since_fade_ == kPeriod) fade();
  return share;
}

void TenantShares::fade() {
  since_fade_ = 0;
  total_ = 0;
  active_ = 0;
  for (Tenant& tenant : tenants_) {
    tenant.count *= kFade;
    if (tenant.count < kForgotten) tenant = {};
    if (tenant.key == 0) continue;
    total_ += static_cast<double>(tenant.count);
    active_ += 1;
  }
}

void TenantShares::write(ImageWriter& out) const {
  out.u32(since_fade_);
  out.f64(total_);  // a sum's last digits depend on its order
  for (std::size_t i = 0; i < tenants_.size(); ++i) {
    if (tenants_[i].key == 0) continue;
    out.u32(static_cast<std::uint32_t>(i));
    out.u64(tenants_[i].key);
    out.f32(tenants_[i].count);
    out.f32(tenants_[i].carry);
  }
  out.u32(kTenants);  // end mark: no such place
}

bool TenantShares::read(ImageReader& in) {
  TenantShares loaded;
  loaded.since_fade_ = in.u32();
  if (loaded.since_fade_ >= kPeriod) return false;
  loaded.total_ = in.f64_within(-1, kTenants * 1e6);
  std::uint32_t next = 0;
  while (in.ok()) {
    const std::uint32_t place = in.u32();
    if (place == kTenants) break;
    if (place < next || place > kTenants) return false;
    next = place + 1;
    Tenant tenant;
    tenant.key = in.u64();
    tenant.count = in.f32_within(0, 1e6);
    tenant.carry = in.f32_within(0, 2);
    if (tenant.key == 0) return false;
    loaded.tenants_[place] = tenant;
    loaded.active_ += 1;
  }
  if (!in.ok()) return false;
  *this = std::move(loaded);
  return true;
}

}  // namespace tailrace::predict
