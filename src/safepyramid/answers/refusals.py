"""How models decline, in words: one table of phrases by language.

Only a reply without a readable answer is looked at, so the table errs on the side of naming a
refusal; but a hedge ("I cannot confirm rule 2") is none, and neither is a quoted refusal of the
chatbot that is being judged. Hence every phrase must open a sentence near the beginning of a
short text.
"""

import re
import unicodedata

MAX_LENGTH = 2_000
"""Longer texts, in characters, are reports, not refusals."""
OPENING = 300
"""How many characters of the text are looked at."""

# Verbs of not knowing: "I cannot verify" hedges, "I cannot help" refuses.
_EN_HEDGE = (
    r"(?!\s+(?:\w+ly\s+)?(?:confirm|verify|determine|establish|find|see|say|tell|identify|detect"
    r"|conclude|decide|locate|point|prove|know|rule\s+out|be\s+(?:sure|certain))\b)"
)
_EN_CANNOT = (
    r"(?:can't|cannot|can\s+not|could\s+not|couldn't|won't|will\s+not|(?:am\s+|'m\s+)?unable\s+to"
    r"|(?:am\s+|'m\s+)?not\s+(?:able|going|willing|permitted|allowed)\s+to)"
)

PHRASES: dict[str, tuple[str, ...]] = {
    "English": (
        rf"(?:i|we)\s*(?:(?:really|simply)\s+)?{_EN_CANNOT}{_EN_HEDGE}",
        rf"{_EN_CANNOT}\s+(?:assist|help|comply|fulfil|engage)",
        r"(?:(?:i'm|i\s+am|we're|we\s+are)\s+(?:so\s+|very\s+|really\s+)?sorry\b(?!\s+for\s+the\s+confusion)|sorry,)",
        r"i(?:'m|\s+am)\s+(?:afraid\s+(?:i|that)\b|not\s+comfortable|uncomfortable)",
        r"i\s+(?:must|have\s+to|need\s+to|will|would)?\s*(?:respectfully\s+|politely\s+)?(?:decline|refuse)\b",
        r"(?:i\s+apologi[sz]e|my\s+apologies),?\s+but",
        rf"as\s+an?\s+(?:ai|artificial|language|large)\b[^.\n]{{0,120}}\b(?:{_EN_CANNOT}{_EN_HEDGE}|must\s+decline|not\s+comfortable)",
        r"(?:this|that|the|your)\s+request\s+(?:can't|cannot|can\s+not)\s+be\s+(?:fulfilled|completed|processed)",
    ),
    "Chinese": (
        r"(?:我?(?:非常|很|十分)?(?:抱歉|遗憾|遺憾)|对不起|對不起)",
        r"我(?:无法|無法|不能|不会|不會|拒绝|拒絕)(?!确认|確認|确定|確定|判断|判斷|看出|发现|發現|排除)",
        r"作[为為](?:一[个個名])?(?:ai|人工智[能慧])[^。\n]{0,40}(?:无法|無法|不能|不会)",
    ),
    "Japanese": (
        r"(?:大変)?申し訳(?:ありません|ございません|ないですが)",
        r"(?:すみません|恐れ入ります)が",
        r"[^。\n]{0,60}(?:お手伝い|お答え|お応え|回答|対応|協力|評価|支援)(?:すること)?[はが]?(?:できません|できかねます|(?:致|いた)しかねます)",
    ),
    "Korean": (
        r"(?:정말\s+)?죄송(?:하지만|합니다|해요)",
        r"[^.\n]{0,60}(?:도와드릴|도움을\s+드릴|답변(?:을)?\s*(?:드릴|할)|평가할|응할|제공할|수행할)\s+수(?:가)?\s+없",
    ),
    "German": (
        r"(?:es\s+)?tut\s+mir\s+(?:sehr\s+)?leid",
        r"entschuldigung,?\s+aber",
        r"(?:ich\s+(?:kann|werde|darf)|(?:leider|dabei|damit|hierbei|das|dies)\s+(?:kann|werde|darf)\s+ich)\b[^.\n]{0,80}\bnicht\b[^.\n]{0,30}\b(?:helfen|weiterhelfen|unterstützen|beantworten|bewerten|beurteilen|erfüllen|nachkommen|tun)",
        r"(?:dabei|damit|hierbei)\s+kann\s+ich\b[^.\n]{0,30}\bnicht\b",
    ),
    "French": (
        r"(?:je\s+suis\s+)?(?:vraiment\s+)?(?:désolée?|navrée?)\b",
        r"je\s+ne\s+(?:peux|puis|suis)\s+pas\s+(?:en\s+mesure\s+de\s+|capable\s+d[e']\s*)?(?!confirmer|vérifier|déterminer|savoir|dire|sûre?\b)",
        r"je\s+refuse\b",
    ),
    "Spanish": (
        r"lo\s+(?:siento|lamento)",
        r"(?:yo\s+)?no\s+puedo\s+(?!confirmar|verificar|determinar|saber|decir|asegurar)",
        r"me\s+niego\b",
    ),
    "Portuguese": (
        r"(?:peço\s+desculpas?|desculpe|desculpa|sinto\s+muito|lamento)\b",
        r"(?:eu\s+)?não\s+(?:posso|consigo)\s+(?!confirmar|verificar|determinar|saber|dizer)",
    ),
    "Italian": (
        r"mi\s+(?:di)?spiace",
        r"non\s+(?:posso|sono\s+in\s+grado\s+di)\s+(?!confermare|verificare|determinare|sapere|dire|stabilire)",
    ),
    "Dutch": (
        r"het\s+spijt\s+me",
        r"sorry,?\s+maar",
        r"(?:ik\s+(?:kan|mag|zal|wil)|(?:daar|hier|dat)(?:mee|bij)?\s+(?:kan|mag|zal|wil)\s+ik)\b[^.\n]{0,80}\bniet\b[^.\n]{0,20}\b(?:helpen|beoordelen|beantwoorden|uitvoeren|voldoen|doen)",
    ),
    "Russian": (
        r"(?:извините|простите|прошу\s+прощения|мне\s+(?:очень\s+)?жаль)",
        r"(?:к\s+сожалению,?\s+)?(?:я\s+)?не\s+(?:могу|смогу|буду)\s+(?!подтвердить|проверить|определить|установить|сказать)",
    ),
    "Ukrainian": (
        r"(?:вибачте|перепрошую|мені\s+(?:дуже\s+)?шкода)",
        r"(?:на\s+жаль,?\s+)?я\s+не\s+(?:можу|буду|зможу)\s+(?!підтвердити|перевірити|визначити|сказати)",
    ),
    "Polish": (
        r"(?:bardzo\s+)?(?:przykro\s+mi|przepraszam,?\s+ale)",
        r"(?:niestety,?\s+)?nie\s+mogę\s+(?!potwierdzić|stwierdzić|określić|ustalić)",
    ),
    "Swedish": (
        r"(?:jag\s+är\s+ledsen|jag\s+beklagar)",
        r"(?:tyvärr\s+kan\s+jag|jag\s+kan(?:\s+tyvärr)?)\s+inte\s+(?!bekräfta|avgöra|säga)",
    ),
    "Turkish": (
        r"(?:çok\s+)?(?:üzgünüm|özür\s+dilerim|kusura\s+bakmayın)",
        r"[^.\n]{0,80}(?:yardımcı\s+olamam|yardım\s+edemem|değerlendiremem|yanıtlayamam|yerine\s+getiremem)",
    ),
    "Arabic": (
        r"(?:أنا\s+)?(?:آسف|أعتذر|عذر|نأسف)",
        r"لا\s+(?:أستطيع|يمكنني|أقدر)\s+(?!تأكيد|تحديد|التأكد)",
    ),
    "Hindi": (
        r"(?:मुझे\s+)?(?:खेद\s+है|माफ़?\s+(?:करें|कीजिए)|क्षमा\s+करें)",
        r"मैं\s+[^।\n]{0,60}नहीं\s+कर\s+सकत",
    ),
    "Vietnamese": (
        r"(?:tôi\s+)?(?:rất\s+|thành\s+thật\s+)?(?:xin\s+lỗi|rất\s+tiếc|tiếc\s+là)",
        r"tôi\s+không\s+thể\s+(?!xác\s+nhận|xác\s+định)",
    ),
    "Indonesian": (
        r"(?:mohon\s+)?maaf\b",
        r"saya\s+tidak\s+(?:bisa|dapat)\s+(?!memastikan|menentukan|mengonfirmasi)",
    ),
}
"""Language -> patterns of a casefolded sentence's beginning, apostrophes straight."""

_STRAIGHT = str.maketrans("’‘ʼ´`", "'" * 5)
_QUOTES = "\"'“”«»「」"
_SENTENCE = (
    r"(?:\A(?:[\s*_#>]*|\{\s*\"(?:refusal|error|message|response)\"\s*:\s*\")|[.!?。！？।\n][\s*_]*|\b(?:but|however),?\s+)"
    r"(?:(?:unfortunately|regrettably|leider|malheureusement|desafortunadamente|lamentablemente"
    r"|infelizmente|purtroppo|helaas|maalesef|للأسف)[,،]?\s+)?"
)
_REFUSAL = re.compile(
    unicodedata.normalize("NFC", _SENTENCE + "(?:" + "|".join(sum(PHRASES.values(), ())) + ")")
)


def is_refusal(text: str) -> bool:
    """Whether a text without a readable answer declines in words.

    Args:
        text: What the model said, without its thinking.

    Returns:
        True for a refusal in one of the languages of `PHRASES`. The empty text, a text of more
        than `MAX_LENGTH` characters and a text that only quotes a refusal are none.
    """
    text = text.strip()
    if len(text) > MAX_LENGTH:
        return False
    if len(text) > 1 and text[0] in _QUOTES and text[-1] in _QUOTES:
        text = text[1:-1]
    text = unicodedata.normalize("NFC", text[:OPENING]).translate(_STRAIGHT).casefold()
    return _REFUSAL.search(text) is not None
