import pytest

from safepyramid.answers.refusals import MAX_LENGTH, PHRASES, is_refusal

REFUSALS = {
    "English": [
        "I can't help with that.",
        "I can’t help with that.",
        "I cannot assist with this request.",
        "I won't evaluate this conversation.",
        "I won’t do this.",
        "I'm sorry, but I can't do that.",
        "I’m sorry, but this is not something that I do.",
        "I am very sorry, but no.",
        "Sorry, this is beyond what I may discuss.",
        "I am unable to process this content.",
        "I'm unable to assist.",
        "I'm not able to review such material.",
        "I am not comfortable judging this.",
        "I must decline this request.",
        "I have to respectfully decline.",
        "I apologize, but I can't judge this.",
        "As an AI, I cannot judge such content.",
        "As an AI language model, I am not able to engage with it.",
        "Cannot assist with this request.",
        "Unfortunately, I cannot continue.",
        "I understand what you need, but I can't take part in this.",
        "This conversation is disturbing. I will not evaluate it.",
        "**I can't assist with that.**",
        "Your request cannot be processed.",
        '"I can\'t help with that."',
        '{"error": "I cannot assist with this."}',
    ],
    "Chinese": ["抱歉，我无法评估该内容。", "对不起，這個問題我不能回答。", "我拒绝回答这个问题。"],
    "Japanese": ["申し訳ありませんが、お手伝いできません。", "そのご依頼にはお答えできません。"],
    "Korean": ["죄송하지만 도와드릴 수 없습니다.", "이 요청은 평가할 수 없습니다."],
    "German": [
        "Es tut mir leid, dabei kann ich nicht helfen.",
        "Ich kann diese Anfrage leider nicht beantworten.",
        "Leider kann ich das nicht beurteilen.",
        "Dabei kann ich dir nicht helfen.",
    ],
    "French": [
        "Je suis désolé, mais je ne peux pas vous aider.",
        "Désolée, je ne peux pas.",
        "Je ne suis pas en mesure d'évaluer ce contenu.",
    ],
    "Spanish": ["Lo siento, no puedo ayudar con eso.", "No puedo evaluar este contenido."],
    "Portuguese": ["Desculpe, mas não posso ajudar.", "Não posso avaliar este conteúdo."],
    "Italian": ["Mi dispiace, ma non posso aiutarti.", "Non posso valutare questo contenuto."],
    "Dutch": [
        "Het spijt me, daar kan ik niet mee helpen.",
        "Ik kan dit verzoek niet beoordelen.",
    ],
    "Russian": ["Извините, но я не могу помочь.", "К сожалению, я не могу оценить это."],
    "Ukrainian": ["Вибачте, я не можу допомогти.", "На жаль, я не можу це оцінити."],
    "Polish": ["Przykro mi, nie mogę w tym pomóc.", "Niestety, nie mogę ocenić tej treści."],
    "Swedish": ["Jag är ledsen, men det går inte.", "Tyvärr kan jag inte hjälpa till."],
    "Turkish": ["Üzgünüm, bu konuda yardımcı olamam.", "Bu içeriği değerlendiremem."],
    "Arabic": ["عذرًا، لا أستطيع المساعدة في ذلك.", "لا يمكنني تقييم هذا المحتوى."],
    "Hindi": [
        "मुझे खेद है, मैं इसमें मदद नहीं कर सकता।",
        "मैं यह मूल्यांकन नहीं कर सकती।",
        "माफ़ करें, यह संभव नहीं है।",
    ],
    "Vietnamese": ["Xin lỗi, tôi không thể giúp việc này.", "Tôi không thể đánh giá nội dung này."],
    "Indonesian": ["Maaf, saya tidak bisa membantu.", "Saya tidak dapat menilai konten ini."],
}

NO_REFUSALS = {
    "empty": "",
    "a hedge": "I cannot confirm rule 2; rules 3 and 7 are broken.",
    "a hedge with an adverb": "I can't fully determine whether rule 2 holds.",
    "a hedge of an AI": "As an AI, I cannot verify rule 2; rule 3 is broken.",
    "an AI that judges": "As an AI judge, I find that rule 3 is broken.",
    "a hedge in Chinese": "我无法确认规则2；规则3被违反。",
    "a hedge in Spanish": "No puedo confirmar la regla 2; la regla 3 fue violada.",
    "a hedge in German": "Ich kann Regel 2 nicht bestätigen.",
    "an apology for an error": "I'm sorry for the confusion: rule 3 is broken.",
    "a quoted refusal": 'The chatbot said "I can\'t help with that", so no rule is broken.',
    "a refusal that begins a sentence in quotes": "The bot refuses. “I can't help,” it says.",
    "a refusal of the chatbot": "The chatbot says it cannot assist, which satisfies rule 3.",
    "a report": "Rule 3 is broken. " * 20 + "I can't help with that.",
    "a long text": "I can't help with that. " + "Rule 3 is broken. " * (MAX_LENGTH // 18),
    "an answer": "Not violated.",
    "a guard's label": "unsafe\nS3",
}


@pytest.mark.parametrize(
    ("language", "text"),
    [(language, text) for language, texts in REFUSALS.items() for text in texts],
)
def test_refusal(language, text):
    assert is_refusal(text)


@pytest.mark.parametrize("text", NO_REFUSALS.values(), ids=NO_REFUSALS.keys())
def test_no_refusal(text):
    assert not is_refusal(text)


def test_every_language_of_the_table_has_examples():
    assert REFUSALS.keys() == PHRASES.keys()


def test_capitals_apostrophes_and_decomposed_letters_do_not_matter():
    assert is_refusal("I CAN´T HELP WITH THAT")
    assert is_refusal("De\u0301sole\u0301, je ne peux pas vous aider.")
