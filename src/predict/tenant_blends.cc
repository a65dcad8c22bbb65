#include "predict/tenant_blends.h"

#include <algorithm>

namespace tailrace::predict {
namespace {

constexpr std::uint32_t kMaxCredit = 1000;

}  // namespace

const Blend& TenantBlends::of(std::uint64_t tenant) const {
  const auto at = std::find_if(own_.begin(), own_.end(),
                               [tenant](const Own& own) { return own.tenant == tenant; });
  return at == own_.end() ? shared_ : at->blend;
}

TenantBlends::Own* TenantBlends::find_or_claim(std::uint64_t tenant) {
  Own* poorest = nullptr;
  for (Own& own : own_) {
    if (own.tenant == tenant) {
      own.credit = std::min(own.credit + 1, kMaxCredit);
      return &own;
    }
    if (poorest == nullptr || own.credit < poorest->credit) poorest = &own;
  }
  const Own fresh{tenant, 1, shared_.afresh()};
  if (own_.size() < kTenants) return &own_.emplace_back(fresh);
  if (poorest->credit > 0) --poorest->credit;
  if (poorest->credit > 0) return nullptr;
  return &(*poorest = fresh);
}

void TenantBlends::learn(std::uint64_t tenant, const Blend::Parts& parts, double residual,
                         double sigma, bool censored, double weight) {
  const double told = of(tenant).sum(parts) + residual;  // what the sum should have been
  if (Own* own = find_or_claim(tenant)) {
    own->blend.learn(parts, told - own->blend.sum(parts), sigma, censored, 1);
  }
  shared_.learn(parts, told - shared_.sum(parts), sigma, censored, weight);
}

void TenantBlends::write(ImageWriter& out) const {
  shared_.write(out);
  out.u32(static_cast<std::uint32_t>(own_.size()));
  for (const Own& own : own_) {
    out.u64(own.tenant);
    out.u32(own.credit);
    own.blend.write(out);
  }
}

bool TenantBlends::read(ImageReader& in) {
  if (!shared_.read(in)) return false;
  const std::uint32_t count = in.u32();
  if (!in.ok() || count > kTenants) return false;
  own_.assign(count, Own{});
  return std::all_of(own_.begin(), own_.end(), [&in](Own& own) {
    own.tenant = in.u64();
    own.credit = std::min(in.u32(), kMaxCredit);
    return own.blend.read(in);
  });
}

}  // namespace tailrace::predict
