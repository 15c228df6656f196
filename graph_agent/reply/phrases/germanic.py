"""How replies give themselves away in German, Dutch, Swedish, and Danish with Norwegian."""

from __future__ import annotations

from typing import Final

FUNCTION_WORDS: Final[dict[str, str]] = {
    "de": (
        "der die das du ich sie ist sind zu nicht dir ihnen deine deiner mit und ein eine mochtest "
        "kann soll wie was welche habe fur auf aufgabe aufgaben liste noch bitte leider"
    ),
    "nl": ("de het je ik een is niet met wil kan van aan voor u wat welke hoe taak taken op heb en of"),
    "sv": ("jag du att ar inte din och en ett vill kan med till vilken uppgift har det lista"),
    "da": ("jeg du at er ikke din og en et vil kan med til hvilken opgave har det liste oppgave"),
}

PHRASES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "de": {
        "done": (
            (
                r"\b(?:hinzugefugt|angelegt|erstellt|eingetragen|aufgenommen|notiert|erledigt|abgehakt|"
                r"geloscht|entfernt|gestrichen|geandert|aktualisiert|umbenannt|abgeschlossen|"
                r"gespeichert)\b(?! werden| habe[n]? mochte)"
            ),
            (
                r"^\W*(?:fertig|alles klar, ist|erledigt|schon passiert)\b|\b(?:steht|ist) (?:jetzt |"
                r"nun )?auf (?:deiner|ihrer|der) liste"
            ),
        ),
        "listing": (
            (
                r"\b(?:hier (?:ist|sind)|das sind)\b|\bdu hast (?:\w+ ){0,3}aufgaben?\b|"
                r"\bsie haben (?:\w+ ){0,3}aufgaben?\b|\bliste ist (?:\w+ )?leer\b|\bkeine (?:offenen |"
                r"weiteren )?aufgaben\b(?!.{0,30}(?:gefunden|namens|finden|passt|qqq))|"
                r"^deine (?:\w+ )?aufgaben\W*$"
            ),
        ),
        "missing": (
            (
                r"\b(?:nicht|keine?n?)\b.{0,60}\b(?:finden|gefunden|sehe)\b|\bfinde\b.{0,40}\b(?:nicht|"
                r"keine?n?)\b|\bgibt es (?:\w+ ){0,2}nicht\b|\bkeine aufgabe (?:namens|mit|qqq)"
            ),
        ),
        "failed": (
            (
                r"\bkonnte (?:\w+ ){0,6}nicht\b|\bfehler\b|\bschiefgegangen\b|\bgerade nicht\b|"
                r"\bim moment nicht\b|\bnicht mehr\b|\bbereits\b|\bnicht geklappt\b|"
                r"versuche? es (?:\w+ )?(?:erneut|nochmal|spater)"
            ),
        ),
        "refuse": (
            (
                r"\b(?:ich kann|kann ich|darf ich|ich darf|konnen wir|wir konnen|ich konnte dir|werde ich|"
                r"ich werde)\b.{0,70}\b(?:nicht|keine?[nrms]?|nur|lediglich|ausschliesslich|nichts)\b"
            ),
            (
                r"\b(?:ich bin|bin ich)\b.{0,40}\bnicht (?:gemacht|gedacht|ausgelegt|zustandig|da|geeignet|befugt)\b|"
                r"\bnicht in der lage\b|\bausserhalb\b|\bliegt nicht in\b|\bich (?:bin|"
                r"habe) (?:leider )?(?:nur|lediglich|ausschliesslich|keinen zugriff|keinen zugang|"
                r"keine moglichkeit|keine informationen|nicht dafur)|\b(?:wird|werden|ist|sind) (?:\w+ ){0,3}"
                r"nicht (?:unterstutzt|moglich|erlaubt|vorgesehen)|\bnur (?:bei|fur|mit|"
                r"um) (?:\w+ ){0,3}aufgaben|\bich habe (?:\w+ )?kein(?:en|e)? (?:zugriff|zugang|moglichkeit|"
                r"wetter)|\bbeschranke mich|\bdavon verstehe ich|\bgehort (?:\w+ )?nicht zu\b|\b(?:und|daher|"
                r"deshalb) kann\b.{0,60}\b(?:nicht|keine?[nrms]?)\b|"
                r"\b(?:ist|sind) (?:\w+ )?nicht (?:mein|meine|etwas)\b|\bmeine (?:moglichkeiten|fahigkeiten|"
                r"aufgabe)\b.{0,20}\b(?:hinaus|nur|"
                r"beschrankt)\b|\bkenne mich\b.{0,40}\bnicht aus\b|\bkummere mich (?:\w+ )?(?:nur|ausschliesslich)\b"
            ),
        ),
        "limit": (r"\bohne zu wissen\b|\bleere aufgabe\b",),
        "lost": (
            (
                r"\bnicht (?:ganz |so |genau )?(?:sicher|klar|verstanden|verstehe|eindeutig)\b|"
                r"\bverstehe (?:\w+ ){0,3}nicht\b|\bunklar\b|\bweiss (?:\w+ ){0,2}nicht\b|"
                r"\bmehr (?:informationen|details|angaben)\b|\bmehrdeutig\b"
            ),
        ),
        "filler": (
            (
                r"^(?:\W|\b(?:ok|okay|klar|gerne|gern|naturlich|verstanden|entschuldigung|tut mir leid|"
                r"alles klar|ja|gut|sicher|selbstverstandlich|mache ich|danke|kein problem|super|hm+|also|"
                r"qqq)\b)*$|\b(?:du hast|sie haben) qqq|\bich sehe\b|\bich kann dir (?:dabei|gerne|damit)"
            ),
        ),
        "greeting": (
            (
                r"^\W*(?:hallo|hi|hey|guten (?:morgen|tag|abend)|servus|gruss|moin|willkommen|gern geschehen|"
                r"gerne!|bitte schon|bitte sehr|freut mich|schon,? (?:dich|von)|mir geht|danke,? (?:mir|gut)|"
                r"das (?:freut|klingt)|keine ursache|tschuss|gluckwunsch|bis bald|schonen)\b|\bich bin dein"
            ),
        ),
        "offer": (
            (
                r"\bwie kann ich\b|\bwomit kann ich\b|\bwobei kann ich\b|\bwas kann ich (?:\w+ ){0,3}(?:fur|"
                r"tun)|\bkann ich (?:dir|ihnen) (?:\w+ )?(?:noch|sonst|bei|heute|helfen|weiterhelfen)|"
                r"\bnoch etwas\b|\bsonst noch\b|\bwie geht(?:'s| es)\b|\bwas (?:steht|liegt) (?:\w+ )?an\b|"
                r"\bwomit (?:mochtest|mochten|willst|sollen|fangen)\b|\b(?:mochtest|willst|mochten|"
                r"wollen) (?:du|sie) (?:\w+ ){0,3}(?:eine|weitere|etwas|noch|deine|ihre|davon|lieber|"
                r"stattdessen|eine davon)\b|\bsoll ich (?:\w+ ){0,3}(?:noch|weitere|davon|etwas|eine davon)\b|"
                r"\bund (?:dir|ihnen)\b|\bwas mochtest du (?:heute|als nachstes)|\bwas darf ich"
            ),
        ),
        "more": (r"\b(?:noch|weitere[ns]?|andere[ns]?|als nachstes|auch|zuerst|davon|sonst|stattdessen|gleich)\b",),
        "pick": (r"\bwelche[nrsm]?\b(?!.{0,60}(?:zuerst|als nachstes))",),
        "fill": (
            (
                r"\bwas (?:soll|mochtest|willst|genau|mochten|wollen|ist|sollte)\b(?!.{0,25}(?:heute|"
                r"als nachstes|noch)\b)|\bwie soll\b|\bworan soll\b|\bwann\b|\bum welche uhrzeit\b|"
                r"\bwie lautet\b|\bin was\b|\bworum\b"
            ),
        ),
        "options": (r"\bwelche (?:von|davon|der beiden|meinst)\b|\boder\b",),
        "details": (r"\b(?:name|namen|beschreibung|titel|text)\b",),
        "purpose": (r"\bwas (?:meinst du|soll ich tun)\b",),
        "choice": (r"\b(?:mochtest|willst|soll|mochten|ist|meinst|meinen)\b.{0,120}\boder\b",),
        "fresh": (r"\b(?:hinzufugen|anlegen|erstellen|tun|machen)\b",),
        "mean": (
            (
                r"\bmeinst du\b|\bmeinen sie\b|\bmeintest du\b|\bwas meinst\b|\bbist du sicher\b|"
                r"\bsind sie sicher\b|\b(?:kannst|konntest|konnten|konnen|wurdest) (?:du|"
                r"sie) (?:\w+ ){0,4}(?:genauer|klarstellen|sagen|prazisieren|erklaren|mitteilen|angeben|"
                r"bestatigen|umformulieren|beschreiben|verraten)|\boder (?:etwas anderes|mochtest|soll|eine|"
                r"handelt|willst|was)\b|\bwas mochtest du (?:damit|mit)|\bwas soll ich (?:damit|mit|tun)"
            ),
        ),
        "propose": (r"\bsoll ich\b|\bmochtest du\b|\bmochten sie\b|\bwillst du\b|\bdarf ich\b",),
        "request": (
            (
                r"\bbitte (?:\w+ ){0,3}?(?:sag|sage|nenne|gib|beschreib|prazisier|teile?|wahl|bestatig|nennen|"
                r"geben|formulier|erklar)\w*|\b(?:sag|sage|nenn|nenne|teile?) mir\b|"
                r"\blass mich wissen,? (?:welche|was|ob|wie)"
            ),
        ),
        "invite": (
            (
                r"\bsag (?:mir )?(?:einfach )?bescheid\b|\blass (?:es )?mich (?:es )?wissen\b|^(?:zum beispiel|"
                r"z\.b)|\bdann\b"
            ),
        ),
        "howto": (r"^(?:um|wenn du)\b.{0,60}\b(?:einfach|kannst du)\b",),
        "several": (r"\b(?:mehrere|zwei|drei|vier|einige)\b.{0,40}\b(?:aufgaben|gefunden|passen|treffer|eintrage)",),
    },
    "nl": {
        "done": (
            (
                r"\b(?:toegevoegd|aangemaakt|verwijderd|afgevinkt|voltooid|bijgewerkt|gewijzigd|aangepast|"
                r"genoteerd|afgerond|opgeslagen|gemarkeerd|hernoemd)\b(?! worden)"
            ),
            r"^\W*(?:klaar|gedaan|gelukt)\b|\bstaat (?:nu )?op je lijst",
        ),
        "listing": (
            (
                r"\b(?:hier (?:is|zijn)|dit zijn)\b|\bje hebt (?:\w+ ){0,3}ta(?:ken|ak)\b|"
                r"\blijst is (?:\w+ )?leeg\b"
            ),
        ),
        "missing": (
            (
                r"\b(?:niet|geen)\b.{0,40}\b(?:vinden|gevonden|zie)\b|\bvind\b.{0,30}\b(?:niet|geen)\b|"
                r"\bbestaat (?:\w+ )?niet\b"
            ),
        ),
        "failed": (
            (
                r"\bkon (?:\w+ ){0,6}niet\b|\bfout\b|\bmis(?:gegaan|gelopen)?\b|\bprobleem\b|\bal (?:voltooid|"
                r"verwijderd|afgerond)\b|\bop dit moment\b|\bniet gelukt\b|\bprobeer (?:het )?(?:\w+ )?opnieuw"
            ),
        ),
        "refuse": (
            (
                r"\b(?:ik kan|kan ik|mag ik|ik mag|we kunnen|kunnen we|ik zal|ga ik)\b.{0,50}\b(?:niet|geen|"
                r"niets|alleen|enkel|uitsluitend|slechts)\b|\bik ben (?:helaas )?(?:alleen|enkel|slechts|"
                r"niet (?:in staat|bedoeld|gemaakt|bevoegd))|\bik heb (?:helaas )?geen (?:toegang|mogelijkheid|"
                r"informatie)|\bbuiten (?:mijn|wat)|\bniet (?:mogelijk|ondersteund|toegestaan)\b"
            ),
        ),
        "lost": (
            (
                r"\bniet (?:helemaal |goed |zo )?(?:zeker|duidelijk|begrepen)\b|\bbegrijp (?:\w+ ){0,3}niet\b|"
                r"\bweet (?:\w+ ){0,2}niet\b|\bmeer (?:informatie|details)\b|\bonduidelijk\b"
            ),
        ),
        "filler": (
            (
                r"^(?:\W|\b(?:ok|oke|natuurlijk|zeker|prima|goed|begrepen|sorry|het spijt me|ja|graag|"
                r"geen probleem|graag gedaan|hm+|qqq)\b)*$|\bje (?:schreef|zei|noemde)|\bik zie\b"
            ),
        ),
        "greeting": (
            (
                r"^\W*(?:hallo|hoi|hey|dag|goede(?:morgen|middag|avond)|goedemorgen|welkom|graag gedaan|"
                r"geen dank|leuk|fijn|met mij gaat|het gaat goed|gefeliciteerd|tot ziens|fijne)\b|"
                r"\bik ben je assistent"
            ),
        ),
        "offer": (
            (
                r"\b(?:hoe|waarmee|waar) kan ik\b|\bwat kan ik (?:voor|vandaag|nog)|\bkan ik (?:je |u )?(?:nog|"
                r"ergens|verder|met iets)|\bnog iets\b|\biets anders\b|\bhoe gaat het\b|\ben met jou\b|"
                r"\b(?:wil|zou) je (?:dat ik )?(?:\w+ ){0,3}(?:een (?:nieuwe )?taak|nog|andere|iets|er (?:een|"
                r"nog)|je lijst)\b|\bwat wil je vandaag"
            ),
        ),
        "more": (r"\b(?:nog|andere?|ook|eerst|verder|volgende|ervan|er een|in plaats)\b",),
        "pick": (r"\bwelke?\b(?!.{0,50}eerst)",),
        "fill": (
            (
                r"\bwat (?:moet|wil|zou|is|precies|bedoel|mag)\b(?!.{0,25}(?:vandaag|nog)\b)|\bhoe (?:moet|wil|"
                r"heet|zal)\b|\bwanneer\b|\bhoe laat\b|\bwaaraan\b|\bwaarvoor\b"
            ),
        ),
        "options": (r"\bwelke van\b",),
        "details": (r"\b(?:naam|beschrijving|titel|tekst|omschrijving)\b",),
        "purpose": (r"\bwat bedoel\b|\bwat wil je (?:dat ik )?doe",),
        "choice": (r"\b(?:wil|zal|moet|is|bedoel|zou)\b.{0,120}\bof\b",),
        "fresh": (r"\b(?:toevoegen|maken|doen)\b",),
        "mean": (
            (
                r"\bbedoel(?:de)? (?:je|u)\b|\b(?:kun|kan|kunt|zou|zou je|wil) (?:je|u|"
                r"jij)\b.{0,25}(?:verduidelijk|specific|vertellen|zeggen|toelicht|bevestig|aangeven|geven|"
                r"herformul|uitleggen|specifiek)|\bweet (?:je|u) (?:het )?zeker\b|\bof (?:iets anders|wil|moet|"
                r"is|bedoel|een|zoek|de)\b|\bwat wil je (?:dat ik )?(?:ermee|hiermee|met|doe)"
            ),
        ),
        "propose": (r"\bzal ik\b|\bwil je\b|\bmoet ik\b|\bwilt u\b",),
        "request": (
            (
                r"\b(?:geef|vertel|laat me weten|specificeer|kies|noem|zeg me) (?:\w+ ){0,2}?(?:aan|me|welke|"
                r"wat|de|of)\b(?!.{0,15}iets)"
            ),
        ),
        "invite": (r"\blaat (?:het )?(?:me|maar) weten\b|^bijvoorbeeld\b|\baarzel niet\b",),
        "several": (r"\b(?:meerdere|twee|drie|verschillende|enkele)\b.{0,30}\b(?:taken|overeen|gevonden|resultaten)",),
    },
    "sv": {
        "done": (
            (
                r"\b(?:lagt till|lagts till|tagit bort|markerat|markerats|uppdaterat|andrat|skapat)\b|"
                r"^\W*klart\b"
            ),
        ),
        "listing": (r"\bhar (?:ar|är) (?:din|dina)|\bdu har (?:\w+ ){0,3}uppgifter\b|\blista ar (?:\w+ )?tom\b",),
        "missing": (r"\b(?:hittar|hittade|hitta)\b.{0,30}\b(?:inte|ingen)|\b(?:inte|ingen)\b.{0,30}\bhitta",),
        "failed": (r"\bkunde inte\b|\bgick fel\b|\bett fel\b",),
        "refuse": (
            (
                r"\b(?:jag kan|kan jag|far jag|jag far)\b.{0,40}\b(?:inte|bara|endast|enbart|inga)\b|"
                r"\bjag har (?:tyvarr )?(?:inte|ingen) (?:tillgang|mojlighet)|\butanfor\b"
            ),
        ),
        "lost": (r"\binte (?:riktigt )?(?:saker|forsta|forstar)|forstar inte|mer information",),
        "filler": (r"^(?:\W|\b(?:ok|okej|visst|sjalvklart|absolut|forstatt|ja|tyvarr|forlat|bra|qqq)\b)*$",),
        "greeting": (r"^\W*(?:hej|hejsan|hallå|god (?:morgon|kvall)|valkommen|varsagod|ingen orsak|kul)\b",),
        "offer": (
            (
                r"\b(?:hur|vad) kan jag\b|\bnagot (?:annat|mer)\b|\bvill du (?:\w+ ){0,3}(?:nagon|nagot|"
                r"en (?:ny )?uppgift|fler)\b|\bhur mar du\b"
            ),
        ),
        "pick": (r"\bvilken\b|\bvilket\b|\bvilka\b",),
        "fill": (r"\bvad (?:ska|vill|menar|heter|skulle)\b|\bnar\b",),
        "mean": (
            (
                r"\bmenar du\b|\bmenade du\b|\b(?:kan|skulle) du\b.{0,20}(?:fortydlig|saga|beratta|specific|"
                r"ange)|\bar du saker\b|\beller\b"
            ),
        ),
    },
    "da": {
        "done": (
            (
                r"\b(?:tilføjet|slettet|markeret|opdateret|fjernet|lagt til|oppdatert|slettet|fullført|"
                r"ændret)\b|^\W*(?:færdig|ferdig)\b"
            ),
        ),
        "listing": (r"\bher er (?:din|dine)|\bdu har (?:\w+ ){0,3}(?:opgaver|oppgaver)\b",),
        "missing": (
            (
                r"\b(?:finde|fandt|fant|finner|finne)\b.{0,30}\b(?:ikke|ingen)|\b(?:ikke|"
                r"ingen)\b.{0,30}\bfin(?:de|ne)"
            ),
        ),
        "failed": (r"\bkunne ikke\b|\bgik galt\b|\bgikk galt\b|\ben fejl\b|\ben feil\b",),
        "refuse": (
            (
                r"\b(?:jeg kan|kan jeg|ma jeg|jeg ma)\b.{0,40}\b(?:ikke|kun|bare|ingen)\b|"
                r"\bjeg har (?:desværre |dessverre )?(?:ikke|ingen) (?:adgang|tilgang|mulighed)|\budenfor\b|"
                r"\butenfor\b|\buden for\b"
            ),
        ),
        "lost": (r"\bikke (?:helt )?(?:sikker|forsta)|forstar (?:det )?ikke|flere oplysninger|mer informasjon",),
        "filler": (r"^(?:\W|\b(?:ok|okay|selvfølgelig|selvsagt|klart|ja|beklager|undskyld|forstaet|fint|qqq)\b)*$",),
        "greeting": (
            (
                r"^\W*(?:hej|hei|goddag|god (?:morgen|aften|dag)|velkommen|selv tak|bare hyggelig|"
                r"det var sa lidt)\b"
            ),
        ),
        "offer": (
            (
                r"\b(?:hvordan|hvad|hva) kan jeg\b|\b(?:noget|noe) (?:andet|annet|mere|mer)\b|"
                r"\bvil du (?:\w+ ){0,3}(?:en (?:ny )?(?:opgave|oppgave)|noget|flere)\b|\bellers\b"
            ),
        ),
        "pick": (r"\bhvilken\b|\bhvilket\b|\bhvilke\b",),
        "fill": (r"\b(?:hvad|hva) (?:skal|vil|mener|hedder|heter)\b|\bhvornar\b|\bnar\b",),
        "mean": (
            (
                r"\bmener du\b|\bmente du\b|\b(?:kan|kunne) du\b.{0,20}(?:uddyb|sige|fortælle|præciser|"
                r"presiser|spesifiser|fortelle|angive)|\ber du sikker\b|\beller\b"
            ),
        ),
    },
}
