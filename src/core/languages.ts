// Languages by all of their codes: FLORES and Belebele use swh_Latn, MGSM sw, Aya swa, people any of them or Swahili.
// Names appear in prompts, so they are fixed here: those of Intl change with its version.
import { RecipeError } from "./errors.js";
import { didYouMean } from "./spelling.js";

export interface Language {
  /** Code of FLORES-200: ISO 639-3 and script, `swh_Latn`. */
  readonly code: string;
  /** ISO 639-1, where there is one that people use: `sw`. */
  readonly short: string | undefined;
  /** English name, as used in prompts. */
  readonly name: string;
  /** ISO 639-3 code, then the macrolanguage's where data sets use it: `swh`, `swa`. */
  readonly codes: readonly string[];
}

/** Macrolanguage codes that data sets use for one language of the table. Source: ISO 639-3 macrolanguage mappings. */
const MACROLANGUAGES: Readonly<Record<string, string>> = {
  arb: "ara",
  azj: "aze",
  khk: "mon",
  lvs: "lav",
  nob: "nor",
  npi: "nep",
  ory: "ori",
  pes: "fas",
  plt: "mlg",
  swh: "swa",
  uzn: "uzb",
  zsm: "msa",
};

// Code, two-letter code or -, name. The default script of a language comes first.
// Codes: the list of FLORES-200 (Costa-jussa et al. 2022, arXiv 2207.04672) and the romanised ones of Belebele.
const TABLE = `
ace_Latn - Acehnese
ace_Arab - Acehnese in Arabic script
acm_Arab - Mesopotamian Arabic
acq_Arab - Ta'izzi-Adeni Arabic
aeb_Arab - Tunisian Arabic
afr_Latn af Afrikaans
ajp_Arab - South Levantine Arabic
aka_Latn ak Akan
als_Latn sq Albanian
amh_Ethi am Amharic
apc_Arab - North Levantine Arabic
arb_Arab ar Arabic
arb_Latn - Romanised Arabic
ars_Arab - Najdi Arabic
ary_Arab - Moroccan Arabic
arz_Arab - Egyptian Arabic
asm_Beng as Assamese
ast_Latn - Asturian
awa_Deva - Awadhi
ayr_Latn ay Aymara
azb_Arab - South Azerbaijani
azj_Latn az Azerbaijani
bak_Cyrl ba Bashkir
bam_Latn bm Bambara
ban_Latn - Balinese
bel_Cyrl be Belarusian
bem_Latn - Bemba
ben_Beng bn Bengali
ben_Latn - Romanised Bengali
bho_Deva - Bhojpuri
bjn_Latn - Banjar
bjn_Arab - Banjar in Arabic script
bod_Tibt bo Tibetan
bos_Latn bs Bosnian
bug_Latn - Buginese
bul_Cyrl bg Bulgarian
cat_Latn ca Catalan
ceb_Latn - Cebuano
ces_Latn cs Czech
cjk_Latn - Chokwe
ckb_Arab - Central Kurdish
crh_Latn - Crimean Tatar
cym_Latn cy Welsh
dan_Latn da Danish
deu_Latn de German
dik_Latn - Dinka
dyu_Latn - Dyula
dzo_Tibt dz Dzongkha
ell_Grek el Greek
eng_Latn en English
epo_Latn eo Esperanto
est_Latn et Estonian
eus_Latn eu Basque
ewe_Latn ee Ewe
fao_Latn fo Faroese
fij_Latn fj Fijian
fin_Latn fi Finnish
fon_Latn - Fon
fra_Latn fr French
fur_Latn - Friulian
fuv_Latn ff Nigerian Fulfulde
gaz_Latn om Oromo
gla_Latn gd Scottish Gaelic
gle_Latn ga Irish
glg_Latn gl Galician
grn_Latn gn Guarani
guj_Gujr gu Gujarati
hat_Latn ht Haitian Creole
hau_Latn ha Hausa
heb_Hebr he Hebrew
hin_Deva hi Hindi
hin_Latn - Romanised Hindi
hne_Deva - Chhattisgarhi
hrv_Latn hr Croatian
hun_Latn hu Hungarian
hye_Armn hy Armenian
ibo_Latn ig Igbo
ilo_Latn - Ilocano
ind_Latn id Indonesian
isl_Latn is Icelandic
ita_Latn it Italian
jav_Latn jv Javanese
jpn_Jpan ja Japanese
kab_Latn - Kabyle
kac_Latn - Jingpho
kam_Latn - Kamba
kan_Knda kn Kannada
kas_Arab ks Kashmiri
kas_Deva - Kashmiri in Devanagari script
kat_Geor ka Georgian
kaz_Cyrl kk Kazakh
kbp_Latn - Kabiye
kea_Latn - Kabuverdianu
khk_Cyrl mn Mongolian
khm_Khmr km Khmer
kik_Latn ki Kikuyu
kin_Latn rw Kinyarwanda
kir_Cyrl ky Kyrgyz
kmb_Latn - Kimbundu
kmr_Latn ku Northern Kurdish
knc_Latn kr Central Kanuri
knc_Arab - Central Kanuri in Arabic script
kon_Latn kg Kikongo
kor_Hang ko Korean
lao_Laoo lo Lao
lij_Latn - Ligurian
lim_Latn li Limburgish
lin_Latn ln Lingala
lit_Latn lt Lithuanian
lmo_Latn - Lombard
ltg_Latn - Latgalian
ltz_Latn lb Luxembourgish
lua_Latn - Luba-Kasai
lug_Latn lg Ganda
luo_Latn - Luo
lus_Latn - Mizo
lvs_Latn lv Latvian
mag_Deva - Magahi
mai_Deva - Maithili
mal_Mlym ml Malayalam
mar_Deva mr Marathi
min_Latn - Minangkabau
min_Arab - Minangkabau in Arabic script
mkd_Cyrl mk Macedonian
mlt_Latn mt Maltese
mni_Beng - Meitei
mos_Latn - Mossi
mri_Latn mi Maori
mya_Mymr my Burmese
nld_Latn nl Dutch
nno_Latn nn Norwegian Nynorsk
nob_Latn nb Norwegian Bokmål
npi_Deva ne Nepali
npi_Latn - Romanised Nepali
nso_Latn - Northern Sotho
nus_Latn - Nuer
nya_Latn ny Nyanja
oci_Latn oc Occitan
ory_Orya or Odia
pag_Latn - Pangasinan
pan_Guru pa Punjabi
pap_Latn - Papiamento
pbt_Arab ps Pashto
pes_Arab fa Persian
plt_Latn mg Malagasy
pol_Latn pl Polish
por_Latn pt Portuguese
prs_Arab - Dari
quy_Latn qu Quechua
ron_Latn ro Romanian
run_Latn rn Rundi
rus_Cyrl ru Russian
sag_Latn sg Sango
san_Deva sa Sanskrit
sat_Olck - Santali
scn_Latn - Sicilian
shn_Mymr - Shan
sin_Sinh si Sinhala
sin_Latn - Romanised Sinhala
slk_Latn sk Slovak
slv_Latn sl Slovenian
smo_Latn sm Samoan
sna_Latn sn Shona
snd_Arab sd Sindhi
som_Latn so Somali
sot_Latn st Southern Sotho
spa_Latn es Spanish
srd_Latn sc Sardinian
srp_Cyrl sr Serbian
ssw_Latn ss Swati
sun_Latn su Sundanese
swe_Latn sv Swedish
swh_Latn sw Swahili
szl_Latn - Silesian
tam_Taml ta Tamil
taq_Latn - Tamasheq
taq_Tfng - Tamasheq in Tifinagh script
tat_Cyrl tt Tatar
tel_Telu te Telugu
tgk_Cyrl tg Tajik
tgl_Latn tl Tagalog
tha_Thai th Thai
tir_Ethi ti Tigrinya
tpi_Latn - Tok Pisin
tsn_Latn tn Tswana
tso_Latn ts Tsonga
tuk_Latn tk Turkmen
tum_Latn - Tumbuka
tur_Latn tr Turkish
twi_Latn tw Twi
tzm_Tfng - Central Atlas Tamazight
uig_Arab ug Uyghur
ukr_Cyrl uk Ukrainian
umb_Latn - Umbundu
urd_Arab ur Urdu
urd_Latn - Romanised Urdu
uzn_Latn uz Uzbek
vec_Latn - Venetian
vie_Latn vi Vietnamese
war_Latn - Waray
wol_Latn wo Wolof
xho_Latn xh Xhosa
ydd_Hebr yi Yiddish
yor_Latn yo Yoruba
yue_Hant - Cantonese
zho_Hans zh Chinese
zho_Hant - Traditional Chinese
zsm_Latn ms Malay
zul_Latn zu Zulu`;

export const LANGUAGES: readonly Language[] = TABLE.trim()
  .split("\n")
  .map((line) => {
    const [code = "", short = "", ...name] = line.split(" ");
    const iso = code.slice(0, 3);
    const macrolanguage = MACROLANGUAGES[iso];
    const codes = macrolanguage === undefined ? [iso] : [iso, macrolanguage];
    return { code, codes, short: short === "-" ? undefined : short, name: name.join(" ") };
  });

/** The language that a code or name means, ignoring case: sw, swh, swa, swh_Latn, Swahili. */
export function findLanguage(code: string): Language | undefined {
  const asked = code.trim().toLowerCase().replaceAll("-", "_");
  const fits = (language: Language) =>
    [language.short, language.name, ...language.codes].some((form) => form?.toLowerCase() === asked);
  return LANGUAGES.find(({ code }) => code.toLowerCase() === asked) ?? LANGUAGES.find(fits);
}

/**
 * The language of a code or name.
 * @param where.task the task that uses it, for the message
 * @param where.field the field that has it
 * @throws RecipeError for an unknown one, with the closest code or name
 */
export function requireLanguage(code: string, where: { readonly task?: string; readonly field: string }): Language {
  const found = findLanguage(code);
  if (found) return found;
  const known = LANGUAGES.flatMap((language) => [language.name, language.code, language.short ?? [], language.codes]);
  throw new RecipeError(
    `${where.task === undefined ? "" : `${where.task}: `}unknown language ${JSON.stringify(code)}; write a code such as swh_Latn, swh or sw, or the English name` +
      didYouMean(code, known.flat()),
    [],
    { field: where.field, actual: code },
  );
}
