#include "model/numerics/variant.h"

namespace moetwin::numerics {
namespace {

/// What a variant changes in the contract.
struct Change {
  const char* name;
  const char* summary;
  void (*apply)(FfnRules& ffn, CombineRule& combine);
};

void set_spans(FfnRules& ffn, uint32_t span) {
  ffn.sum.linear1_span = span;
  ffn.sum.linear2_span = span;
}

/// Channels that share one promotion must share their scales too.
void widen_scales(FfnRules& ffn, uint32_t group) {
  ffn.x.group = group;
  ffn.l1.group = group;
  ffn.weights.columns = group;
}

void set_groups(FfnRules& ffn, uint32_t group) {
  ffn.x.group = group;
  ffn.l1.group = group;
}

void set_input_scales(FfnRules& ffn, ScaleRule rule) {
  ffn.x.scale = rule;
  ffn.weights.scale = rule;
}

constexpr Change kAccumulation[] = {
    {"reuse-rescale",
     "accumulator stays in the tensor core over all of K, divided by each group's scales before "
     "and "
     "multiplied after",
     [](FfnRules& f, CombineRule&) { f.sum.accumulator = Accumulator::ReuseRescale; }},
    {"reuse-rescale-ratio",
     "accumulator stays in the tensor core over all of K, multiplied by the ratio of scales "
     "between groups",
     [](FfnRules& f, CombineRule&) { f.sum.accumulator = Accumulator::ReuseRescaleRatio; }},
    {"promote-32", "promotion after every tensor-core step",
     [](FfnRules& f, CombineRule&) { set_spans(f, 32); }},
    {"promote-64", "promotion every 64 channels in both products",
     [](FfnRules& f, CombineRule&) { set_spans(f, 64); }},
    {"promote-128", "promotion every 128 channels in both products, which share their scales",
     [](FfnRules& f, CombineRule&) {
       set_spans(f, 128);
       f.l1.group = 128;
     }},
    {"promote-256", "promotion every 256 channels, which share their scales",
     [](FfnRules& f, CombineRule&) {
       set_spans(f, 256);
       widen_scales(f, 256);
     }},
    {"promote-whole", "one promotion for all of K; rows and 128 weight rows have one scale",
     [](FfnRules& f, CombineRule&) {
       set_spans(f, kWhole);
       widen_scales(f, kWhole);
     }},
    {"promote-unfused", "promotion rounds product and sum each, in place of one fma",
     [](FfnRules& f, CombineRule&) { f.sum.fused = false; }},
    {"accumulate-exact", "no rounding between two promotions",
     [](FfnRules& f, CombineRule&) { f.sum.accumulator = Accumulator::Exact; }},
    {"accumulate-fp16", "every tensor-core step's result is rounded to FP16",
     [](FfnRules& f, CombineRule&) { f.sum.accumulator = Accumulator::TensorCoreFp16; }},
    {"sum-bf16", "the running sum of promotions is rounded to BF16",
     [](FfnRules& f, CombineRule&) { f.sum.running = RunningSum::Bf16; }},
    {"sum-fp16", "the running sum of promotions is rounded to FP16",
     [](FfnRules& f, CombineRule&) { f.sum.running = RunningSum::Fp16; }},
};

constexpr Change kQuantisation[] = {
    {"group-32", "one activation scale per 32 channels, in both products",
     [](FfnRules& f, CombineRule&) {
       set_groups(f, 32);
       set_spans(f, 32);
     }},
    {"group-64", "one activation scale per 64 channels, in both products",
     [](FfnRules& f, CombineRule&) {
       set_groups(f, 64);
       set_spans(f, 64);
     }},
    {"group-128", "one activation scale per 128 channels, in both products",
     [](FfnRules& f, CombineRule&) { set_groups(f, 128); }},
    {"group-row", "one activation scale per row, in both products",
     [](FfnRules& f, CombineRule&) { set_groups(f, kWhole); }},
    {"scale-pow2", "scales of x and of weights rounded up to powers of two",
     [](FfnRules& f, CombineRule&) { set_input_scales(f, ScaleRule::PowerOfTwoUp); }},
    {"scale-pow2-nearest", "scales of x and of weights rounded to the nearest power of two",
     [](FfnRules& f, CombineRule&) { set_input_scales(f, ScaleRule::PowerOfTwoNearest); }},
    {"floor-1e-10", "amax of x and of weights is raised to 1e-10, not 1e-4",
     [](FfnRules& f, CombineRule&) { f.x.floor = f.weights.floor = 1e-10f; }},
    {"floor-none", "amax of x and of weights has no floor",
     [](FfnRules& f, CombineRule&) { f.x.floor = f.weights.floor = 0; }},
    {"l1-scale-fp32", "Linear1's output has plain fp32 scales, amax raised to 1e-10",
     [](FfnRules& f, CombineRule&) {
       f.l1.scale = ScaleRule::Plain;
       f.l1.floor = 1e-10f;
     }},
    {"l1-scale-nearest", "Linear1's output has scales of the nearest power of two",
     [](FfnRules& f, CombineRule&) { f.l1.scale = ScaleRule::PowerOfTwoNearest; }},
    {"l1-floor-1e-4", "amax of Linear1's output is raised to 1e-4",
     [](FfnRules& f, CombineRule&) { f.l1.floor = 1e-4f; }},
    {"l1-floor-1e-10", "amax of Linear1's output is raised to 1e-10",
     [](FfnRules& f, CombineRule&) { f.l1.floor = 1e-10f; }},
    {"l1-e5m2", "Linear1's output is E5M2",
     [](FfnRules& f, CombineRule&) { f.l1.format = CodeFormat::E5m2; }},
    {"e5m2", "x, weights and Linear1's output are E5M2",
     [](FfnRules& f, CombineRule&) {
       f.x.format = f.weights.format = f.l1.format = CodeFormat::E5m2;
     }},
    {"mxfp4-weights", "weights are MXFP4 (E2M1, a power-of-two scale per 32), decoded to E4M3",
     [](FfnRules& f, CombineRule&) {
       f.weights.through_mxfp4 = true;
       f.weights.scale = ScaleRule::PowerOfTwoUp;
       f.weights.floor = 0;
     }},
};

constexpr Change kEpilogue[] = {
    {"linear1-bf16", "gate and up are rounded to BF16 before SwiGLU",
     [](FfnRules& f, CombineRule&) { f.bf16_linear1 = true; }},
    {"swiglu-exact", "correctly rounded exponential and quotient in place of ex2 and rcp",
     [](FfnRules& f, CombineRule&) { f.exact_swiglu = true; }},
    {"weight-at-scatter", "the routing weight multiplies Linear2's sum before it is rounded",
     [](FfnRules& f, CombineRule&) { f.weight_place = WeightPlace::BeforeScatter; }},
    {"weight-at-combine", "the routing weight multiplies the BF16 row when slots are added",
     [](FfnRules& f, CombineRule&) { f.weight_place = WeightPlace::AtCombine; }},
    {"combine-by-expert", "slots are added in order of expert",
     [](FfnRules&, CombineRule& c) { c.order = CombineOrder::Expert; }},
    {"combine-by-rank", "each rank adds its slots and sends one BF16 row",
     [](FfnRules&, CombineRule& c) { c.order = CombineOrder::Rank; }},
    {"combine-pairwise", "slots are added in pairs, then pairs of pairs",
     [](FfnRules&, CombineRule& c) { c.order = CombineOrder::Pairwise; }},
    {"combine-bf16", "the sum over slots is rounded to BF16 after every slot",
     [](FfnRules&, CombineRule& c) { c.bf16_sum = true; }},
    {"combine-fp8", "rows travel back as E4M3 with a scale per 128 channels",
     [](FfnRules&, CombineRule& c) { c.fp8_rows = true; }},
};

template <size_t N>
void add(const Change (&changes)[N], std::vector<Variant>& variants) {
  for (const Change& change : changes) {
    Variant variant{change.name, change.summary, {}, {}};
    change.apply(variant.ffn, variant.combine);
    variants.push_back(variant);
  }
}

std::vector<Variant> make_variants() {
  std::vector<Variant> variants = {{"contract", "what both machines compute, bit for bit", {}, {}}};
  add(kAccumulation, variants);
  add(kQuantisation, variants);
  add(kEpilogue, variants);
  return variants;
}

}  // namespace

const std::vector<Variant>& all_variants() {
  static const std::vector<Variant> kVariants = make_variants();
  return kVariants;
}

const Variant* find_variant(std::string_view name) {
  for (const Variant& variant : all_variants())
    if (variant.name == name) return &variant;
  return nullptr;
}

}  // namespace moetwin::numerics
