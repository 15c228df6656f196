"""Words in a summary that could be meant as a restriction although they are not a marker of the constitution's grammar.

A line such as `- delete_task: Remove tasks, ask first` would otherwise grant the tool without confirmation. Every such word is
an error, even if it is harmless: the operator can put the summary in double quotes, where no word is a marker.
"""

from __future__ import annotations

import re
import unicodedata

from rapidfuzz.distance import OSA

# By language, for those with the Latin alphabet (the section permits no other letters), without accents and apostrophes.
# Phrases are separated by "|". A star stands for the rest of a word, three dots for up to three words.
_PHRASES = {
    "English": """
        confirm* | requir* | approv* | authoriz* | authoris* | consent* | forbid* | prohibit* | disabl* | disallow*
        restrict* | never | denied | banned | blocked | deprecated | obsolete | off | cannot | cant | dont | mustnt | shouldnt
        wont | unless | unsafe | dangerous | caution | careful | supervised | on hold | human in the loop | manual* only
        human* only | ask* ... first | ask* ... before | check* ... first | check* ... before | consult* ... first
        before ... ask* | notify ... first | notify ... before | tell ... first | warn ... first | warn ... before | ask* user
        ask* the user | ask* me | ask* ... owner | ask* ... human | ask* ... admin* | ask* ... operator | prompt* user
        prompt* the user | consult* user | consult* the user | ask* permission | ask* for permission | always ask | must ask
        should ask | please ask | need* ... ok | need* ... okay | need* ... yes | need* ... permission | need* ... agreement
        need* ... review | need* sign off | need* ... go ahead | with* ... ok | with* ... okay | with* ... permission
        with* ... agreement | after ... ok | after ... okay | after ... yes | after ... permission | after ... review
        only ... ok | only ... permission | wait* ... ok | wait* ... yes | ok needed | ok first | okay first
        permission needed | permission first | yes first | do not | must not | should not | may not | can not | not allowed
        not permitted | not available | not active | not enabled | not call* | not use* | not be call* | not be use*
        not to be | no longer | not now | not yet | only if | only when | only after | only with | only once | only for
        on request | by request | switched off | turned off | at most | no more than | up to 1* | up to 2* | up to 3*
        up to 5* | max 1* | max 2* | max 3* | max 5* | maximum 1* | limit* to | per message | per turn | per request
        once per | once a | once each
    """,
    "German": """
        konfirm* | bestatig* | bestaetig* | erforder* | genehm* | erlaubnis | zustimm* | einwillig* | einverstand* | verboten
        deaktiv* | abgeschaltet | ausgeschaltet | gesperrt | beschrank* | ruckfrag* | rueckfrag* | nachfrag* | nie | niemals
        vorher ... frag* | zuerst ... frag* | erst ... frag* | immer frag* | frag* ... vorher | frag* ... zuerst | freigabe
        nicht aufruf* | nicht benutz* | nicht verwend* | nicht nutz* | nicht erlaubt | nur nach | nur mit | hochstens
        maximal
    """,
    "French": """
        requier* | approb* | autoris* | interdi* | desactiv* | accord prealable | jamais | ne ... pas | ne ... jamais
        ne ... plus | demand* ... dabord | demand* ... avant | dabord demand* | avant ... demand* | toujours demand*
        seulement apres | au plus
    """,
    "Spanish": """
        aprob* | autoriz* | prohib* | desactiv* | deshabilit* | nunca | pregunt* ... antes | pregunt* ... primero
        antes pregunt* | primero pregunt* | consult* ... antes | ped* permiso | con permiso | no usar | no llamar
        no permitid* | solo con
    """,
    "Portuguese": """
        aprov* | proib* | desativ* | desabilit* | jamais | pergunt* ... antes | pergunt* ... primeiro | antes pergunt*
        com permissao | ped* permissao | nao usar | nao chamar | nao permitid* | somente com
    """,
    "Italian": """
        conferm* | richied* | approvazione | autorizz* | consens* | vietat* | disattiv* | disabilit* | mai | chied* ... prima
        prima chied* | prima ... chied* | con permesso | non usare | non chiamare | non consentit* | solo con
    """,
    "Dutch": """
        bevestig* | vereist | goedkeur* | toestemming | verbied* | uitgeschakel* | geblokkeerd | nooit | vraag ... eerst
        eerst ... vrag* | eerst vraag | vooraf ... vrag* | niet gebruik* | niet aanroep* | niet toegestaan | alleen na
    """,
    "Scandinavian": """
        bekraft* | bekreft* | bekraeft* | godkann* | godkend* | godkjenn* | tillatels* | tilladels* | forbud* | forbjud*
        forbudt | avstang* | avaktiver* | deaktiver* | aldrig | aldri | frag* ... forst | sporg* ... forst | spor ... forst
        inte anvand*
    """,
    "Polish and Czech": """
        potwierdz* | wymag* | zatwierdz* | zgoda | zgody | zabron* | wylaczon* | nigdy | zapytaj ... najpierw
        najpierw ... pyta* | najpierw zapytaj | nie uzywa* | nie wolno | potvrd* | vyzad* | schval* | souhlas* | zakaz*
        vypnut* | nikdy
    """,
    "Turkish and Indonesian": """
        onay* | yasak* | asla | devre disi | once ... sor* | persetujuan | izin | dilarang | nonaktif | jangan | konfirmasi
    """,
    "Finnish and Hungarian": """
        vahvist* | hyvaks* | kielletty | koskaan | megerosit* | jovahagy* | tilos | soha
    """,
}

# Correctly spelt words whose misspellings are found, with the largest edit distance that counts as a misspelling.
_MISSPELT = {
    "confirmation": 2,
    "confirmed": 2,
    "confirm": 1,
    "requires": 1,
    "required": 1,
    "require": 1,
    "approval": 2,
    "approved": 1,
    "permission": 1,
    "permitted": 1,
    "disabled": 1,
    "forbidden": 2,
    "prohibited": 2,
    "authorized": 1,
    "authorization": 2,
}

# Common words within that distance of a listed one.
_HARMLESS = frozenset({"permissions", "conform", "conforms", "conformed", "confine", "confined"})

_SAME_AS = str.maketrans({"'": "", "’": "", "ł": "l", "ı": "i", "ø": "o", "ß": "ss", "æ": "ae"})


def find_marker_word(summary: str) -> str | None:
    """Return the first word or phrase of `summary` that could be meant as a restriction, or None."""
    text = _folded(summary)
    # Words that are split: "con-firm", "o.k.", "n e v e r".
    joined = _folded(re.sub(r"(?<=\w)[^\w\s](?=\w)", "", summary))
    spelled = re.sub(r"\b(\w) (?=\w\b)", r"\1", text)
    return next((found for variant in (text, joined, spelled) if (found := _find(variant)) is not None), None)


def _find(text: str) -> str | None:
    if found := _PATTERN.search(text):
        return found.group()
    return next((word for word in text.split() if _is_misspelt(word)), None)


def _is_misspelt(word: str) -> bool:
    return word not in _HARMLESS and any(OSA.distance(word, known) <= limit for known, limit in _MISSPELT.items())


def _folded(text: str) -> str:
    """Return the words of `text` in lower case, without accents and punctuation, separated by single spaces."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    letters = "".join(char for char in decomposed if not unicodedata.combining(char)).translate(_SAME_AS)
    return " ".join(re.findall(r"\w+", letters))


def _regex(phrase: str) -> str:
    return re.escape(phrase).replace(r"\*", r"\w*").replace(r"\ \.\.\.\ ", r" (?:\w+ ){0,3}")


_LISTED = [phrase.strip() for text in _PHRASES.values() for row in text.splitlines() for phrase in row.split("|")]
_PATTERN = re.compile(rf"\b(?:{'|'.join(_regex(phrase) for phrase in _LISTED if phrase)})\b")
