#include "fuzz/recorded_loads.h"

#include <vector>

#include "model/counter_random.h"
#include "model/routing_kinds.h"

namespace moetwin {
namespace {

constexpr uint16_t kOlmoeArxiv0[] = {
    9766, 923,  928,  1541, 1858, 730,  1626, 1093, 846,  435,  669,  1311, 262,  1021, 732,  1046,
    652,  2253, 905,  1317, 344,  1685, 652,  481,  844,  812,  904,  1095, 278,  1771, 863,  979,
    1221, 836,  1129, 758,  1714, 962,  1151, 620,  3141, 1998, 1146, 1098, 1227, 1243, 1088, 1567,
    787,  1116, 1088, 1429, 868,  1651, 2345, 1742, 1034, 627,  1178, 685,  1188, 1144, 1105, 489};
constexpr uint16_t kOlmoeArxiv7[] = {
    837,  206,  5535, 125,  7352, 1015, 308,  903,  155,  221, 1043, 524,  1225, 255,  478,  1415,
    661,  7854, 106,  736,  367,  2743, 571,  1301, 1610, 65,  2017, 1457, 116,  1114, 2164, 815,
    1090, 1234, 673,  5160, 2477, 423,  1939, 1012, 391,  964, 930,  228,  63,   1402, 2066, 196,
    1455, 1096, 324,  74,   1289, 79,   354,  215,  1088, 562, 4955, 1075, 346,  825,  180,  542};
constexpr uint16_t kOlmoeArxiv15[] = {
    1273, 3190, 808,  1600, 334,  663,  839, 1185, 2072, 612,  651,  965,  594,  679,  1,    823,
    712,  9369, 272,  975,  989,  1523, 330, 194,  413,  90,   1798, 28,   586,  3029, 4831, 691,
    1051, 1363, 5134, 2397, 3899, 938,  316, 1,    159,  399,  57,   1974, 3064, 73,   534,  436,
    136,  10,   357,  14,   518,  2462, 794, 1125, 869,  1731, 4174, 7,    2431, 649,  557,  254};
constexpr uint16_t kOlmoeC40[] = {
    735,  1042, 997,  1169, 1131, 1275, 1398, 1279, 953,  1896, 1269, 1668, 1283, 1000, 1106, 1252,
    1272, 1471, 1060, 1537, 1266, 840,  1640, 375,  1432, 1122, 1331, 1043, 911,  1258, 1294, 1051,
    982,  1352, 1102, 1129, 1299, 1179, 1359, 1244, 1084, 3771, 1049, 1208, 1253, 1080, 1462, 1085,
    1242, 1177, 1213, 1585, 894,  941,  998,  1210, 1014, 1694, 1877, 1287, 1387, 1367, 1071, 1053};
constexpr uint16_t kOlmoeC47[] = {
    1609, 3322, 250,  792,  881,  1892, 994,  523,  918,  956,  976,  949,  791,  1613, 1087, 1606,
    1153, 526,  2678, 1430, 1326, 721,  1252, 1610, 1296, 2091, 1593, 863,  749,  1338, 1411, 1524,
    1172, 1495, 976,  677,  1219, 1262, 1533, 979,  1111, 1486, 776,  995,  1244, 621,  2095, 1641,
    1665, 903,  986,  775,  1356, 1872, 948,  976,  1529, 1302, 663,  1794, 1429, 1415, 1186, 1198};
constexpr uint16_t kOlmoeC415[] = {
    1032, 513,  2181, 1612, 1196, 934,  654,  3124, 775,  371,  1901, 636,  568,  1966, 1039, 1859,
    614,  853,  557,  441,  1311, 2700, 961,  1652, 798,  2664, 2363, 2092, 1474, 521,  807,  1120,
    312,  238,  658,  727,  964,  450,  1628, 1597, 1104, 1127, 1640, 850,  285,  1289, 1729, 1437,
    1618, 1861, 702,  2109, 1433, 748,  1675, 1823, 2032, 697,  1156, 1301, 1153, 1588, 1481, 1299};
constexpr uint16_t kOlmoeGithub0[] = {
    1550, 948,  1823, 1267, 1131, 466,  1991, 785,  1705, 209,  811,  1767, 223,  1800, 859,  1131,
    605,  1969, 951,  654,  969,  6258, 842,  479,  1590, 939,  930,  1250, 845,  1488, 1070, 1274,
    1430, 970,  370,  651,  1076, 982,  629,  811,  3026, 2265, 1237, 1030, 979,  773,  639,  1729,
    709,  1400, 1060, 1279, 1784, 2516, 1732, 1283, 1323, 303,  1082, 878,  1496, 1386, 1343, 1251};
constexpr uint16_t kOlmoeGithub7[] = {
    3876, 1121, 7556, 259,  6568, 635,  240, 1159, 186,  254, 811,  277,  1739, 786,  780,  468,
    497,  7696, 483,  269,  244,  2243, 544, 1731, 567,  337, 1685, 2442, 168,  754,  1284, 1528,
    715,  1075, 662,  5739, 453,  632,  592, 1319, 285,  388, 1945, 517,  39,   3631, 1663, 315,
    1832, 1432, 85,   16,   558,  65,   343, 194,  1360, 111, 3127, 498,  150,  498,  209,  369};
constexpr uint16_t kOlmoeGithub15[] = {
    1477, 3995, 246,  794,  233,  1609, 1774, 206, 5617, 1507, 142,  1312, 1102, 141,  9,    143,
    1482, 5498, 1339, 1633, 523,  251,  845,  239, 1677, 21,   156,  94,   132,  3165, 5636, 1352,
    1995, 2043, 667,  1740, 4601, 1612, 105,  52,  1076, 1154, 691,  1711, 3964, 14,   128,  155,
    90,   32,   620,  218,  1027, 1495, 113,  196, 154,  1838, 4720, 38,   3006, 65,   93,   238};
constexpr uint16_t kMixtralArxiv0[] = {2667, 2490, 2519, 2419, 2126, 3173, 2143, 2464};
constexpr uint16_t kMixtralArxiv7[] = {2484, 2398, 2711, 2117, 2493, 2614, 2357, 2827};
constexpr uint16_t kMixtralArxiv15[] = {2930, 2520, 1919, 1223, 2875, 2928, 2918, 2688};
constexpr uint16_t kMixtralGithub0[] = {2626, 2486, 2370, 2331, 2365, 3242, 2288, 2293};
constexpr uint16_t kMixtralGithub7[] = {2202, 2673, 3113, 2105, 2371, 2411, 2754, 2371};
constexpr uint16_t kMixtralGithub15[] = {2875, 2677, 2055, 1847, 2127, 3321, 2738, 2359};

constexpr RecordedLoads kRecorded[] = {
    {"OLMoE-1B-7B-0924", "arxiv", 0, kOlmoeArxiv0},
    {"OLMoE-1B-7B-0924", "arxiv", 7, kOlmoeArxiv7},
    {"OLMoE-1B-7B-0924", "arxiv", 15, kOlmoeArxiv15},
    {"OLMoE-1B-7B-0924", "c4", 0, kOlmoeC40},
    {"OLMoE-1B-7B-0924", "c4", 7, kOlmoeC47},
    {"OLMoE-1B-7B-0924", "c4", 15, kOlmoeC415},
    {"OLMoE-1B-7B-0924", "github", 0, kOlmoeGithub0},
    {"OLMoE-1B-7B-0924", "github", 7, kOlmoeGithub7},
    {"OLMoE-1B-7B-0924", "github", 15, kOlmoeGithub15},
    {"Mixtral-8x7B-v0.1", "arxiv", 0, kMixtralArxiv0},
    {"Mixtral-8x7B-v0.1", "arxiv", 7, kMixtralArxiv7},
    {"Mixtral-8x7B-v0.1", "arxiv", 15, kMixtralArxiv15},
    {"Mixtral-8x7B-v0.1", "github", 0, kMixtralGithub0},
    {"Mixtral-8x7B-v0.1", "github", 7, kMixtralGithub7},
    {"Mixtral-8x7B-v0.1", "github", 15, kMixtralGithub15},
};

}  // namespace

std::span<const RecordedLoads> recorded_loads() { return kRecorded; }

RoutingSpec recorded_routing(const RecordedLoads& loads, uint32_t first, const RoutingSpec& like,
                             const Shape& shape, std::span<const uint32_t> tokens) {
  std::vector<uint64_t> counts(shape.experts);
  for (uint32_t e = 0; e < shape.experts; ++e)
    counts[e] = loads.of_expert[(uint64_t{first} + e) % loads.of_expert.size()];
  const auto draw = make_counts_draw(like, shape, std::move(counts));
  RoutingSpec routing;
  routing.kind = RoutingKind::Explicit;
  routing.seed = like.seed;
  routing.weights = like.weights;
  std::vector<int32_t> slots(shape.topk);
  uint64_t global = 0;
  for (uint32_t rank = 0; rank < shape.ranks; ++rank) {
    auto& ids = routing.topk_idx.emplace_back();
    for (uint32_t token = 0; token < tokens[rank]; ++token, ++global) {
      draw->draw({rank, token, global}, slots);
      const Key mask = Key(like.seed, Stream::RoutingMask).with(rank).with(token);
      auto& row = ids.emplace_back(slots.begin(), slots.end());
      for (uint32_t k = 0; k < shape.topk; ++k)
        if (happens(mask.draw(k), like.masked)) row[k] = kMaskedExpert;
    }
  }
  return routing;
}

}  // namespace moetwin
