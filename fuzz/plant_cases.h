// Cases that several planted faults, right programs or mutants share, each the smallest that shows
// what its comment says.
#pragma once

namespace moetwin::plant_cases {

/// Six tokens of three slots, wide enough for four warps: later rows reuse the first ones' stages.
constexpr const char* kThreeSlots =
    R"({"shape":{"ranks":1,"experts":4,"topk":3,"hidden":1024,"intermediate":128,
        "max_tokens_per_rank":6},"kernel":{"sms_per_rank":1}})";
/// One block of rows and two blocks of K.
constexpr const char* kOneBlock =
    R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":256,"intermediate":256,
        "max_tokens_per_rank":64},"kernel":{"sms_per_rank":1}})";
/// As above, with a stage that is used again at once.
constexpr const char* kOneStage =
    R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":256,"intermediate":256,
        "max_tokens_per_rank":64},"kernel":{"sms_per_rank":1,"stages":1}})";
/// A tile of which only three rows are valid.
constexpr const char* kThreeRows =
    R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":3},"kernel":{"sms_per_rank":1},"world":{"padding":"compute"}})";
/// Several laps of a ring, the last block not full.
constexpr const char* kLaps =
    R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":256,"intermediate":128,
        "max_tokens_per_rank":300},"kernel":{"sms_per_rank":1,"stages":2}})";
/// Several laps shared by two SMs, so that one may be ahead.
constexpr const char* kLapsTwoSms =
    R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":256,"intermediate":128,
        "max_tokens_per_rank":600},"kernel":{"sms_per_rank":2,"stages":2}})";
/// Rows of more than one pull chunk.
constexpr const char* kTwoChunks =
    R"({"shape":{"ranks":1,"experts":1,"topk":1,"hidden":8192,"intermediate":128,
        "max_tokens_per_rank":2},"kernel":{"sms_per_rank":1}})";
/// Two ranks of two SMs that need each other, two launches without the host between them.
constexpr const char* kTwoRanks =
    R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":256,"intermediate":128,
        "max_tokens_per_rank":8},"kernel":{"sms_per_rank":2},"launches":2})";
constexpr const char* kLateRank =
    R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":256,"intermediate":128,
        "max_tokens_per_rank":8},"kernel":{"sms_per_rank":2},"launches":2,
        "world":{"late_rank":1,"late_steps":100000}})";
constexpr const char* kMasked =
    R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":2},"routing":{"kind":"explicit",
        "topk_idx":[[[1,-1],[2,3]],[[-1,-1],[0,1]]]},"kernel":{"sms_per_rank":1}})";
/// 512 rows for a rank whose share of the mean is 128.
constexpr const char* kHotRank =
    R"({"shape":{"ranks":4,"experts":16,"topk":2,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":64},"routing":{"kind":"hot_rank","rank":0,"share":1},
        "kernel":{"sms_per_rank":1}})";
constexpr const char* kHotExpert =
    R"({"shape":{"ranks":2,"experts":2,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":4},"tokens":[4,4],"routing":{"kind":"hot_expert","expert":1,
        "share":1},"kernel":{"sms_per_rank":1}})";
constexpr const char* kDuplicates =
    R"({"shape":{"ranks":1,"experts":4,"topk":4,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":1},"routing":{"kind":"explicit","topk_idx":[[[3,3,3,3]]]},
        "kernel":{"sms_per_rank":1}})";
constexpr const char* kEmptyRank =
    R"({"shape":{"ranks":2,"experts":2,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":5},"tokens":[5,0],"kernel":{"sms_per_rank":1}})";
constexpr const char* kFirstRankEmpty =
    R"({"shape":{"ranks":2,"experts":2,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":5},"tokens":[0,5],"kernel":{"sms_per_rank":1}})";
constexpr const char* kNoTokens =
    R"({"shape":{"ranks":2,"experts":2,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":5},"tokens":[0,0],"kernel":{"sms_per_rank":1}})";
constexpr const char* kEmptyRankNeverStarts =
    R"({"shape":{"ranks":2,"experts":2,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":5},"tokens":[5,0],"kernel":{"sms_per_rank":1},
        "world":{"held_sms":[[1,0]]}})";
constexpr const char* kHeldSm =
    R"({"shape":{"ranks":1,"experts":2,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":4},"kernel":{"sms_per_rank":4},"world":{"held_sms":[[0,3]]}})";
constexpr const char* kGridOfTwo =
    R"({"shape":{"ranks":1,"experts":2,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":4},"kernel":{"sms_per_rank":2}})";
/// Three experts of one full block each, in waves of two.
constexpr const char* kUnevenWaves =
    R"({"shape":{"ranks":1,"experts":3,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":192},"routing":{"kind":"round_robin"},
        "kernel":{"sms_per_rank":1,"scheduler":"wave","experts_per_wave":2}})";
/// Six slots a token: five tokens a warp, and a sixth for the next.
constexpr const char* kSixSlots =
    R"({"shape":{"ranks":1,"experts":6,"topk":6,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":6},"kernel":{"sms_per_rank":1}})";
/// Rows whose bytes lie past 2^32 from the start of their region.
constexpr const char* kFarRows =
    R"({"shape":{"ranks":1,"experts":8,"topk":8,"hidden":2048,"intermediate":128,
        "max_tokens_per_rank":200000},"tokens":[1],"kernel":{"sms_per_rank":1}})";
constexpr const char* kShortRing =
    R"({"shape":{"ranks":1,"experts":2,"topk":2,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":1},"routing":{"kind":"explicit","topk_idx":[[[0,1]]]},
        "kernel":{"sms_per_rank":1,"ring_blocks":1}})";
/// One buffer, two shapes.
constexpr const char* kTwoShapes =
    R"({"shape":{"ranks":2,"experts":4,"topk":2,"hidden":256,"intermediate":128,
        "max_tokens_per_rank":64},"kernel":{"sms_per_rank":1},
        "launches":[{},{"shape":{"max_tokens_per_rank":32,"hidden":512}}]})";
/// One token of one slot: what the entry checks let through.
constexpr const char* kOneToken =
    R"({"shape":{"ranks":1,"experts":4,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":1},"routing":{"kind":"explicit","topk_idx":[[[0]]]},
        "kernel":{"sms_per_rank":1}})";
constexpr const char* kOneTokenTwoRanks =
    R"({"shape":{"ranks":2,"experts":2,"topk":1,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":1},"routing":{"kind":"explicit","topk_idx":[[[0]],[[1]]]},
        "kernel":{"sms_per_rank":1}})";
/// Random values, two blocks of K in both GEMMs.
constexpr const char* kNormal =
    R"({"shape":{"ranks":1,"experts":2,"topk":2,"hidden":256,"intermediate":256,
        "max_tokens_per_rank":4},"kernel":{"sms_per_rank":1}})";
/// Codes of every kind, NaN among them.
constexpr const char* kNan =
    R"({"shape":{"ranks":1,"experts":4,"topk":2,"hidden":128,"intermediate":128,
        "max_tokens_per_rank":32},"data":{"kind":"extreme","nan":true},
        "kernel":{"sms_per_rank":1}})";

}  // namespace moetwin::plant_cases
