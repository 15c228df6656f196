"""How replies give themselves away in Polish, Czech, Russian and Ukrainian."""

from __future__ import annotations

from typing import Final

FUNCTION_WORDS: Final[dict[str, str]] = {
    "pl": ("nie jest czy to na z w i mam moge zadanie zadania lista chcesz sie"),
    "cs": ("je se na ukol ukoly chcete mohu mate muzu"),
}

PHRASES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "pl": {
        "done": (
            (
                r"\b(?:dodał\w*|dodano|usunał\w*|usuniet\w+|usunieto|oznaczył\w*|zaktualizował\w*|zaznaczył\w*|"
                r"zmienił\w*|utworzył\w*|gotowe|zrobione|dodane)\b"
            ),
        ),
        "listing": (r"\boto (?:twoje|twoja|lista)|\bmasz (?:\w+ ){0,3}zada\w+|lista (?:zadan )?jest pusta",),
        "missing": (r"\bnie (?:moge |udało sie )?(?:znalez\w+|widze|ma)\b|nie znalazłe?a?m",),
        "failed": (r"\bnie udało sie\b|\bbład\b|cos poszło nie tak|sprobuj ponownie",),
        "refuse": (
            (
                r"\bnie (?:moge|potrafie|jestem w stanie|mam dostepu|wolno mi)\b|\bmoge (?:tylko|jedynie|"
                r"pomoc\w* (?:\w+ )?(?:tylko|jedynie|wyłacznie))|\b(?:tylko|jedynie|wyłacznie) (?:w|z) |"
                r"\bpoza (?:moim|zakresem)"
            ),
        ),
        "lost": (
            (
                r"\bnie (?:jestem pewi?en|jestem pewna|rozumiem|wiem|zrozumiał\w+)|wiecej (?:informacji|"
                r"szczegołow)"
            ),
        ),
        "filler": (r"^(?:\W|\b(?:ok|jasne|oczywiscie|dobrze|przepraszam|rozumiem|tak|swietnie|qqq)\b)*$",),
        "greeting": (r"^\W*(?:czesc|witaj|dzien dobry|hej|dobry wieczor|nie ma za co|prosze bardzo|miło)\b",),
        "offer": (
            (
                r"\b(?:w czym|jak) moge\b|\bcos jeszcze\b|\bczy (?:moge|chcesz|chciałbys|"
                r"potrzebujesz) (?:\w+ ){0,3}(?:cos|jakies|pomoc|dodac nowe|jeszcze|jakiegos|zadanie)\b|"
                r"\bjak sie masz"
            ),
        ),
        "pick": (r"\bktor(?:e|y|a|ego|ych)\b",),
        "fill": (
            (
                r"\bco (?:mam|chcesz|ma|dokładnie|chciał\w+)\b|\bjak (?:ma|mam|chcesz)\b|\bkiedy\b|\bo czym\b|"
                r"\bjakie (?:zadanie|to)\b"
            ),
        ),
        "mean": (
            (
                r"\b(?:czy )?chodzi(?:ło)?\b|\b(?:czy )?(?:mozesz|mogłbys|mogłabys)\b.{0,20}(?:doprecyz|"
                r"powiedz|wyjasn|podac|okresl|sprecyz)|\bczy na pewno\b|\bczy (?:mam|chcesz)\b|"
                r"\bmasz na mysli\b"
            ),
        ),
        "request": (r"\b(?:prosze )?(?:podaj|powiedz|okresl|sprecyzuj|wybierz|doprecyzuj)\b",),
    },
    "cs": {
        "done": (r"\b(?:pridal\w*|smazal\w*|oznacil\w*|hotovo|pridano|upravil\w*)\b",),
        "refuse": (r"\bnemohu\b|\bneumim\b|\bmohu (?:\w+ )?(?:jen|pouze)|\bpouze s\b|\bmimo\b",),
        "greeting": (r"^\W*(?:ahoj|dobry den|vitejte|neni zac|rado se stalo)\b",),
        "offer": (r"\b(?:s cim|jak) (?:ti |vam )?(?:mohu|muzu)\b|\bneco dalsiho\b|\bjeste neco\b",),
        "pick": (r"\bktery\w*\b|\bktere\b|\bkterou\b",),
        "mean": (r"\bmysl(?:is|ite|el)\b|\bmuzete\b|\bmuzes\b|\bchcete\b|\bchces\b",),
    },
    "ru": {
        "done": (
            (
                r"\b(?:добавил\w*|добавлен\w*|удалил\w*|удален\w*|отметил\w*|отмечен\w*|готово|обновил\w*|"
                r"обновлен\w*|изменил\w*|создал\w*|выполнено)\b"
            ),
        ),
        "listing": (r"\bвот (?:ваш|твои|список|все)|\bу (?:вас|тебя) (?:\w+ ){0,3}задач|список (?:задач )?пуст",),
        "missing": (r"\bне (?:могу |смог\w* |удалось )?(?:наити|нашел|нашла|нашлось|вижу)|не наид",),
        "failed": (r"\bне удалось\b|\bошибк|\bпошло не так|попробуите (?:еще|позже|снова)",),
        "refuse": (
            (
                r"\b(?:не могу|не умею|не имею (?:доступа|возможности)|не в состоянии|не смогу|"
                r"не предназначен)\b|\bмогу\b.{0,30}\bтолько\b|\bтолько (?:с|помогаю|могу)\b|\bнет доступа\b|"
                r"\bвыходит за|\bвне моих|\bза пределами"
            ),
        ),
        "lost": (
            (
                r"\bне (?:совсем |очень )?(?:понял\w*|понимаю|уверен\w*|ясно|понятно)\b|\bуточните\b|"
                r"больше (?:информации|деталеи)"
            ),
        ),
        "filler": (r"^(?:\W|\b(?:хорошо|конечно|ладно|извините|простите|понял|понятно|да|ок|qqq)\b)*$",),
        "greeting": (
            (
                r"^\W*(?:привет|здравствуи\w*|добрыи (?:день|вечер)|доброе утро|пожалуиста!|не за что|рад\w*|"
                r"приветствую)\b"
            ),
        ),
        "offer": (
            (
                r"\bчем (?:я )?(?:могу|еще)|\bкак (?:я могу|дела|твои)|\bчто-(?:нибудь|то) еще\b|\bеще что|"
                r"\bхотите (?:\w+ ){0,2}(?:добавить|посмотреть|еще)|\bмогу ли я\b"
            ),
        ),
        "pick": (
            (
                r"\bкак(?:ую|ои|ая|ие|ое)(?: именно)?\b(?=.{0,60}(?:задач|имел|удал|отмет|хотите|из|вы|ты))|"
                r"\bкоторую\b"
            ),
        ),
        "fill": (
            (
                r"\bчто (?:именно|добавить|нужно|вы|ты|записать|должно)\b|\bкак (?:назвать|должна|ее|"
                r"сформулировать)\b|\bкогда\b|\bо чем\b|\bкак(?:ую|ое|ои)\b"
            ),
        ),
        "mean": (
            (
                r"\bимели? (?:в виду|ввиду)|\bвы имеете|\b(?:можете|могли бы|можешь)\b.{0,20}(?:уточн|сказать|"
                r"поясн|указать|повтор)|\bвы уверены|\bили\b|\bхотите ли\b|\bвы хотите\b|\bты хочешь\b"
            ),
        ),
        "request": (r"\b(?:уточните|укажите|скажите|сообщите|выберите|напишите)\b",),
        "several": (r"\b(?:несколько|две|три)\b.{0,30}задач",),
    },
    "uk": {
        "done": (r"\b(?:додав|додала|додано|видалив|видалено|готово|позначив|позначено|оновлено)\b",),
        "refuse": (r"\bне можу\b|\bможу\b.{0,30}\b(?:лише|тільки|тiльки)\b|\b(?:лише|тільки) (?:з|із)\b",),
        "greeting": (r"^\W*(?:привіт|привiт|вітаю|вiтаю|доброго|добрии день|будь ласка!)",),
        "offer": (r"\bчим (?:я )?(?:можу|ще)|\bщось ще\b|\bще щось\b",),
        "pick": (r"\bяк(?:е|у|ии|а) (?:саме |із )?(?:завдання|задачу|з)|\bяке саме",),
        "fill": (r"\bщо (?:саме|додати|потрібно)\b|\bколи\b|\bяк назвати\b",),
        "mean": (r"\bмали на увазі|\bчи (?:ви )?хочете|\bабо\b|\bчи\b",),
    },
}
