"""How replies give themselves away in French, Spanish, Italian, Portuguese and Romanian."""

from __future__ import annotations

from typing import Final

FUNCTION_WORDS: Final[dict[str, str]] = {
    "fr": (
        "le la les vous je est des une un votre vos tu pas que pour avec souhaitez voulez puis et "
        "de du j'ai ne quelle tache taches liste dois il plusieurs laquelle autre"
    ),
    "es": (
        "el la los las tu tus que es una un no para con quieres puedo de en he lo por te y mi cual "
        "tarea tareas lista algo mas hay"
    ),
    "it": (
        "il la le lo che una un non per con vuoi posso di tua tue ho cosa come quale e sono questo attivita lista altro hai ci"
    ),
    "pt": (
        "o a os as voce sua suas que uma um nao para com quer posso de em sou gostaria ou qual "
        "isso ao tarefa tarefas lista mais alguma"
    ),
    "ro": ("nu este sa va te cu lista sarcina vrei si pe"),
}

PHRASES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "fr": {
        "done": (
            (
                r"\b(?:j'ai|est|a ete|ont ete|sont|avons|a bien ete)\b.{0,25}\b(?:ajoute|cree|supprime|marque|"
                r"termine|modifie|mis|mise|enregistre|retire|coche|note|renomme|efface)"
            ),
            (
                r"^\W*(?:c'est fait|voila|fait|ajoute|termine|supprime)\b|\bc'est (?:fait|note)\b|"
                r"\btache (?:ajoutee|terminee|supprimee|modifiee|creee)"
            ),
        ),
        "listing": (
            (
                r"\bvoici\b|\bvous avez (?:\w+ ){0,3}taches?\b|\btu as (?:\w+ ){0,3}taches?\b|"
                r"\bliste est (?:\w+ )?vide\b|\baucune tache (?:en cours|en attente|pour)|"
                r"n'avez aucune tache\b(?! (?:nomm|app|qqq|corr))|n'as aucune tache\b(?! (?:nomm|app|qqq|"
                r"corr))"
            ),
        ),
        "missing": (
            (
                r"\b(?:ne|n')\s?(?:trouve|vois|ai|peux|parviens|arrive)\b.{0,20}\b(?:pas|"
                r"aucune?)\b.{0,20}\b(?:trouver?|voir|"
                r"localiser)\b|\bne vois (?:pas|aucune)|\bintrouvable|\bne trouve\b|\bn'existe pas\b|"
                r"n'ai (?:pas |rien )trouve|aucune tache (?:nomm|app|ne|qqq|corr)"
            ),
        ),
        "failed": (
            (
                r"\bn'ai pas (?:pu|reussi)\b|\berreur\b|\bun probleme\b|\bdeja\b|\bpour le moment\b|\breessay|"
                r"\bn'a pas (?:pu|fonctionne)"
            ),
        ),
        "refuse": (
            (
                r"\bje ne (?:peux|puis|saurais|suis|dispose)\b.{0,30}\b(?:pas|que|qu'|rien)|\bje ne (?:peux|"
                r"puis|saurais|suis)\b|\bne (?:peux|puis) (?:malheureusement )?(?:pas|que)\b|\bje (?:peux|"
                r"suis) .{0,40}\b(?:uniquement|seulement|exclusivement)\b"
            ),
            (
                r"\bje n'ai (?:malheureusement )?pas (?:acces|la possibilite|la capacite|le droit|d'acces|"
                r"de moyen|d'informations)|\ben dehors de\b|\bhors de (?:ma|mon|mes)|\bpas en mesure\b|"
                r"\bpas (?:capable|autorise|concu|prevu|possible|pris en charge)|\bdepasse (?:mes|mon|le)|"
                r"\bje suis (?:uniquement|seulement|un simple|la seulement|la uniquement|limite)|"
                r"\bme (?:limite|concentre)|\bn'est pas (?:quelque chose|dans mes|de mon|mon|possible)|"
                r"\bdonc pas\b|\bau-dela d|\bne fait pas partie|\bspecialise"
            ),
        ),
        "limit": (r"\bsans savoir\b",),
        "lost": (
            (
                r"\bpas (?:tout a fait |bien |tres )?(?:sur|certain|compris|clair|saisi)\b|"
                r"\bplus (?:d'informations|de details|de precisions|d'infos)\b|\bambigu|\bcomprends pas\b"
            ),
        ),
        "filler": (
            (
                r"^(?:\W|\b(?:ok|d'accord|bien sur|tres bien|entendu|desolee?|je suis|oui|compris|"
                r"pas de probleme|parfait|avec plaisir|volontiers|certainement|hum+|je vois|qqq)\b)*$|"
                r"\bvous avez (?:ecrit|mentionne|dit)|\bje peux (?:vous|t')"
            ),
        ),
        "greeting": (
            (
                r"^\W*(?:bonjour|salut|bonsoir|coucou|bienvenue|de rien|je vous en prie|je t'en prie|"
                r"avec plaisir|ravi|enchante|je vais (?:tres )?bien|merci,? (?:je|ca)|super,? (?:je|content)|"
                r"felicitations|au revoir|bonne (?:journee|soiree)|a bientot|tout le plaisir)\b|"
                r"\bje suis (?:votre|ton) assistant"
            ),
        ),
        "offer": (
            (
                r"\b(?:comment|en quoi) (?:puis-je|je peux|est-ce que je peux|peux-je)|\bque puis-je\b|"
                r"\bqu'est-ce que je peux faire\b|\bpuis-je (?:vous |t'|encore )?(?:aider|faire)|"
                r"\bautre chose\b|\bcomment (?:allez|vas|ca va)|\bet (?:vous|toi)\b|\b(?:souhaitez|voulez|veux|"
                r"souhaites|aimeriez|aimerais)-?\s?(?:vous|tu)? (?:que je )?(?:\w+ ){0,3}(?:une (?:nouvelle |"
                r"autre )?tache|autre|d'autres|encore|voir|aussi|quelque chose|l'une|en)\b|\bbesoin d'(?:autre|"
                r"aide)"
            ),
        ),
        "more": (r"\b(?:autres?|encore|aussi|ensuite|d'abord|en premier|l'une|quelque chose)\b",),
        "pick": (
            (
                r"\b(?:laquelle|lequel|lesquel\w*|quelle? (?:tache|est la tache|est celle))\b|"
                r"\bde quelle tache\b|\bquelle tache\b"
            ),
        ),
        "fill": (
            (
                r"\b(?:que|qu'est-ce que|quel(?:le)?) (?:doit|dois-je|voulez|veux|souhaitez|souhaites|"
                r"est (?:le|la)|devrait|titre|description|faut-il|dois)|\bcomment (?:dois-je|souhaitez-vous|"
                r"voulez-vous|veux-tu|s'appelle|doit)|\bde quoi\b|\bquand\b|\ba quelle heure\b|\bque dois-je\b|"
                r"\bqu'est-ce que (?:vous|tu)\b|\bquel (?:est|serait|sera)\b"
            ),
        ),
        "options": (r"\b(?:laquelle|lequel|lesquelles)\b",),
        "details": (r"\b(?:nom|description|titre|texte)\b",),
        "purpose": (r"\bque (?:voulez|souhaitez)-vous (?:que je fasse|faire)|\bque voulez-vous dire\b",),
        "choice": (r"\b(?:voulez|souhaitez|veux|dois|est-ce|s'agit)\b.{0,120}\bou\b",),
        "fresh": (r"\b(?:ajouter|creer|faire)\b",),
        "mean": (
            (
                r"\b(?:voulez-vous|veux-tu|vouliez-vous|voulais-tu) (?:dire|parler)\b|\b(?:pouvez-vous|"
                r"pourriez-vous|peux-tu|pourrais-tu)\b.{0,15}(?:precis|dire|clarifi|indiqu|reformul|confirm|"
                r"expliqu|donner|detaill|fournir)|\betes-vous sur|\bes-tu sur|\bou (?:autre chose|bien|s'agit|"
                r"souhaitez|voulez|voir|une|l'autre)\b|\bs'agit-il\b|\bparlez-vous\b|\bque (?:voulez-vous|"
                r"veux-tu|souhaitez-vous|dois-je) (?:que je )?(?:en )?(?:fasse|faire)"
            ),
        ),
        "propose": (r"\b(?:voulez|souhaitez)-vous\b|\b(?:veux|souhaites)-tu\b|\bdois-je\b|\best-ce que je dois\b",),
        "request": (
            (
                r"\b(?:veuillez|merci de|dites-moi|dis-moi|indiquez|precisez|indique-moi|precise|"
                r"donnez-moi)\b(?!.{0,12} si\b)"
            ),
        ),
        "invite": (r"\bn'hesitez pas\b|\bn'hesite pas\b|\bfaites-(?:le-)?moi savoir\b|^par exemple\b",),
        "several": (r"\b(?:plusieurs|deux|trois|quatre)\b.{0,30}\b(?:taches|correspond|resultats)",),
    },
    "es": {
        "done": (
            (
                r"\b(?:he|hemos|ha sido|se ha|fue|han sido|se han)\b.{0,20}\b(?:anadid|agregad|cread|eliminad|"
                r"borrad|marcad|completad|actualizad|cambiad|guardad|quitad|modificad|anotad)"
            ),
            (
                r"^\W*(?:listo|hecho|agregue|anadi|anadid[oa]|agregad[oa]|tarea (?:anadida|agregada|creada|"
                r"completada|eliminada)|elimine|marque)\b|\b(?:agregue|elimine|actualice) (?:la|el|qqq|tu)"
            ),
        ),
        "listing": (
            (
                r"\b(?:aqui (?:esta|tienes|estan|tiene)|estas son)\b|"
                r"\btienes (?:\w+ ){0,3}tareas?\b(?! (?:llamad|con|que))|"
                r"\bno tienes (?:ninguna )?tareas?\b(?! (?:llamad|con|que))|\blista esta (?:\w+ )?vacia\b"
            ),
        ),
        "missing": (
            (
                r"\bno\b.{0,25}\b(?:encontrar|encuentro|encontre|veo|existe|encontrado|localizar)\b|"
                r"\bninguna tarea (?:llamada|con|que|qqq)|\bno (?:tienes|"
                r"hay) (?:ninguna )?(?:una )?tarea (?:llamada|con|que|qqq)"
            ),
        ),
        "failed": (
            (
                r"\bno (?:he podido|pude|se pudo|ha sido posible|logre)\b|\berror\b|\bun problema\b|\bya (?:no|"
                r"estaba|esta|ha)\b|\ben este momento\b|\bsalio mal\b|\bintentalo\b"
            ),
        ),
        "refuse": (
            (
                r"\bno (?:me |te |le |os )?(?:puedo|podria|podre|debo)\b|\bno (?:soy|estoy) (?:capaz|"
                r"en condiciones|autorizad|disenad|programad|en capacidad)|\bno (?:tengo|"
                r"dispongo de?) (?:acceso|la capacidad|la posibilidad|informacion|forma|permiso)|\b(?:solo|"
                r"solamente|unicamente) (?:puedo|soy|estoy|te puedo|le puedo|ayudo)|\bpuedo .{0,30}\b(?:solo|"
                r"solamente|unicamente|exclusivamente)\b"
            ),
            (
                r"\b(?:fui|he sido|estoy) (?:cread|disenad|hech|program)\w* (?:solo|solamente|unicamente)\b|"
                r"\bfuera de (?:mi|mis|lo que|mi alcance)|\bno (?:me )?es posible\b|\bno es algo\b|"
                r"\bmas alla de\b|\bexcede\b|\blamento no poder|"
                r"\bno esta (?:permitid|disponible|dentro)|\bno se (?:puede|admite|permite)|"
                r"\bestoy (?:aqui )?(?:solo|disenad\w+) para|\bespecializ"
            ),
        ),
        "limit": (r"\bsin saber\b",),
        "lost": (
            (
                r"\bno (?:estoy (?:muy |del todo |completamente )?segur|entiendo|entendi|he entendido|"
                r"comprendo|me queda (?:muy )?claro|se (?:que|a que|cual))|\bmas (?:informacion|detalles|"
                r"contexto)\b|\bambigu"
            ),
        ),
        "filler": (
            (
                r"^(?:\W|\b(?:ok|vale|claro|claro que si|por supuesto|de acuerdo|entendido|lo siento|perdon|si|"
                r"perfecto|con gusto|desde luego|muy bien|hm+|bien|qqq)\b)*$|\b(?:has|ha) (?:escrito|dicho|"
                r"mencionado)|\bveo que\b|\bpuedo ayudarte"
            ),
        ),
        "greeting": (
            (
                r"^\W*(?:hola|buenos? dias?|buenas (?:tardes|noches)|bienvenid|de nada|con gusto!|un placer|"
                r"encantad|mucho gusto|estoy (?:muy )?bien|muy bien,? gracias|me alegr|felicidades|enhorabuena|"
                r"adios|hasta (?:luego|pronto)|que tengas)|\bsoy tu asistente"
            ),
        ),
        "offer": (
            (
                r"\b(?:como|en que) (?:te |le |os )?(?:puedo|podria)|\bque (?:mas )?puedo hacer\b|"
                r"\bpuedo (?:ayudar\w*|hacer) (?:en |con )?(?:algo|alguna)|\b(?:algo|alguna cosa) mas\b|"
                r"\bnecesitas (?:algo|ayuda)\b|\bcomo (?:estas|te va|va)\b|\by tu\b|"
                r"\bte gustaria (?:\w+ ){0,3}(?:alguna?|otra|una (?:nueva )?tarea|ver|mas)\b|"
                r"\bquieres (?:que )?(?:\w+ ){0,3}(?:alguna?|otra|una (?:nueva )?tarea|ver|mas|algo)\b|"
                r"\bque (?:te gustaria|quieres|deseas) hacer (?:hoy|ahora)|\ben que mas\b"
            ),
        ),
        "more": (r"\b(?:mas|otr[oa]s?|tambien|primero|algun[oa]?|siguiente|ademas|en su lugar)\b",),
        "pick": (r"\bcual(?:es)?\b(?!.{0,50}primero)|\bque tarea\b|\bde que tarea\b",),
        "fill": (
            (
                r"\bque (?:deberia|debe|quieres|te gustaria|tengo|debo|necesitas|nombre|texto|descripcion|"
                r"es lo que|quiere|desea|deseas|tarea)\b(?!.{0,25}(?:hoy|ahora)\b)|\bcomo (?:debo|deberia|"
                r"quieres|se llama|te gustaria)|\bcuando\b|\ba que hora\b|\bde que\b|\bsobre que\b"
            ),
        ),
        "options": (r"\bcual de\b|\bcuales\b",),
        "details": (r"\b(?:nombre|descripcion|titulo|texto)\b",),
        "purpose": (r"\bquieres hacer\b|\bquieres decir\b|\bquieres que haga\b",),
        "choice": (r"\b(?:quieres|te gustaria|deseas|es|debo|prefieres|quiere)\b.{0,120}\bo\b",),
        "fresh": (r"\b(?:anadir|agregar|crear|hacer)\b",),
        "mean": (
            (
                r"\b(?:quieres|quisiste|quiere) decir\b|\bte refieres\b|\bse refiere\b|\b(?:puedes|podrias|"
                r"podria|puede)\b.{0,12}(?:aclar|especific|decirme|dar|indicar|reformul|confirm|explic|ser mas|"
                r"proporcion|precis|repet)|\b(?:estas|esta) segur|\bo (?:algo|otra|prefieres|quieres|es|hacer|"
                r"buscar|modificar|quiza|la|el|ver|te)\b|\bque (?:quieres|te gustaria|debo|"
                r"desea) (?:que )?(?:hag\w+|hacer) con\b|\bes (?:esta|esto) una\b"
            ),
        ),
        "propose": (r"\bquieres que\b|\bte gustaria que\b|\bdeseas que\b|\bdebo\b|\b(?:quieres|deseas)\b",),
        "request": (
            (
                r"\bpor favor,? (?:\w+ ){0,2}?(?:dime|indica|especifica|aclara|proporciona|confirma|dame|"
                r"indique|elige|describe)\w*|\b(?:dime|indicame|especifica|aclara)\b(?! si (?:necesitas|hay|"
                r"quieres algo))"
            ),
        ),
        "invite": (r"\b(?:avisame|hazmelo saber|no dudes|dime si)\b|^por ejemplo\b",),
        "several": (r"\b(?:varias|dos|tres|cuatro|multiples|mas de una)\b.{0,30}\b(?:tareas|coincid|resultados)",),
    },
    "it": {
        "done": (
            (
                r"\b(?:ho|e stat[oa]|abbiamo|sono stat[ei])\b.{0,20}\b(?:aggiunt|creat|eliminat|cancellat|"
                r"segnat|completat|aggiornat|modificat|salvat|rimoss|cambiat|contrassegnat)"
            ),
            (
                r"^\W*(?:fatto|aggiunt[oa]|ecco fatto|attivita (?:aggiunta|completata|eliminata|creata))\b|"
                r"\be (?:ora )?(?:nella|sulla) tua lista"
            ),
        ),
        "listing": (
            (
                r"\becco (?:la|le|i|qui|l'|tutte|tutti)|\bhai (?:\w+ ){0,3}(?:attivita|compiti|"
                r"task)\b(?! (?:chiamat|con|che))|\blista e (?:\w+ )?vuota\b"
            ),
        ),
        "missing": (r"\bnon\b.{0,25}\b(?:trov\w+|vedo|esiste)\b|\bnessuna attivita (?:chiamata|con|che|qqq)",),
        "failed": (
            (
                r"\bnon (?:sono riuscit|ho potuto|e stato possibile)|\berrore\b|\bun problema\b|\bgia\b|"
                r"\bal momento\b|\bstorto\b|\briprova"
            ),
        ),
        "refuse": (
            (
                r"\b(?:cread?o|creato|progettato) (?:solo|soltanto|solamente)\b|"
                r"\bnon (?:ti |vi |le )?(?:posso|potrei|saprei)\b|\bposso .{0,30}\b(?:solo|soltanto|solamente|"
                r"unicamente|esclusivamente)\b|\b(?:solo|soltanto) (?:posso|con le|per)|\bnon (?:sono in grado|"
                r"ho accesso|ho la possibilita|ho modo|ho informazioni|sono autorizzat|sono progettat)|"
                r"\bfuori dal|\bal di fuori\b|\boltre le mie\b|\bnon e qualcosa\b|\bva oltre\b|\besula\b|"
                r"\bnon (?:mi )?e possibile\b|\bsono (?:solo|soltanto|"
                r"qui solo|un semplice)|\bnon rientra"
            ),
        ),
        "lost": (
            (
                r"\bnon (?:sono (?:del tutto |molto |proprio )?sicur|ho capito|capisco|mi e chiaro|e chiaro)|"
                r"\bpiu (?:informazioni|dettagli)\b|\bambigu"
            ),
        ),
        "filler": (
            (
                r"^(?:\W|\b(?:ok|va bene|certo|certamente|d'accordo|capito|mi dispiace|scusa|si|perfetto|"
                r"volentieri|nessun problema|bene|hm+|qqq)\b)*$|\bhai (?:scritto|detto|menzionato)|"
                r"\bvedo che\b"
            ),
        ),
        "greeting": (
            (
                r"^\W*(?:ciao|buongiorno|buonasera|salve|benvenut|prego|di niente|figurati|piacere|sto bene|"
                r"tutto bene|mi fa piacere|complimenti|arrivederci|buona (?:giornata|serata))|"
                r"\bsono il tuo assistente"
            ),
        ),
        "offer": (
            (
                r"\b(?:come|in cosa|in che modo) posso\b|\bcosa posso fare\b|\bposso (?:aiutarti|esserti|"
                r"fare) (?:\w+ ){0,2}(?:altro|qualcos|utile|con altro)|\bqualcos'altro\b|\baltro\b|"
                r"\bcome (?:stai|va|posso)\b|\be tu\b|\b(?:vuoi|desideri|ti piacerebbe|"
                r"vorresti) (?:che )?(?:\w+ ){0,3}(?:un'altra|altre|una (?:nuova )?attivita|qualche|vedere|"
                r"qualcosa|ne)\b|\bhai bisogno di\b"
            ),
        ),
        "more": (r"\b(?:altr[oaei]|un'altra|anche|prima|qualche|qualcuna|ancora|successiv)\w*\b",),
        "pick": (r"\bqual[ei]?\b(?!.{0,50}per prim)",),
        "fill": (
            (
                r"\b(?:cosa|che cosa) (?:devo|dovrebbe|vuoi|desideri|vorresti|deve|intendi|"
                r"ti piacerebbe)\b(?!.{0,20}oggi\b)|\bcome (?:devo|vuoi|si chiama|dovrebbe|vorresti)|"
                r"\bquando\b|\ba che ora\b|\bdi cosa\b"
            ),
        ),
        "options": (r"\bquale (?:di|delle|tra)\b",),
        "details": (r"\b(?:nome|descrizione|titolo|testo)\b",),
        "purpose": (r"\bvuoi fare\b|\bvuoi dire\b|\bintendi\b",),
        "choice": (r"\b(?:vuoi|devo|desideri|preferisci|e)\b.{0,120}\b(?:o|oppure)\b",),
        "fresh": (r"\b(?:aggiungere|creare|fare)\b",),
        "mean": (
            (
                r"\b(?:intendi|intendevi|vuoi dire|ti riferisci)\b|\b(?:puoi|potresti|puo)\b.{0,12}(?:chiar|"
                r"specific|dirmi|dare|indicar|riformul|conferm|spieg|essere|fornir|precis|ripet)|\bsei sicur|"
                r"\bo (?:qualcos|preferisci|vuoi|e|cercar|modific|la|quell|il)\w*\b|\bcosa (?:vuoi|devo|"
                r"vorresti) (?:che )?(?:facc\w+|fare|fac\w+) con\b|\bvuoi (?:aggiung|crear|che (?:aggiung|"
                r"elimin|segn|lo|la))"
            ),
        ),
        "propose": (r"\bvuoi che\b|\bdevo\b|\bdesideri\b|\bvuoi\b",),
        "request": (
            (
                r"\bper favore,? (?:\w+ ){0,2}?(?:dimmi|indica|specifica|chiarisci|fornisci|conferma|"
                r"scegli)\w*|\b(?:dimmi|indicami|specifica)\b(?! se)"
            ),
        ),
        "invite": (r"\bfammi sapere\b|\bnon esitare\b|^(?:ad|per) esempio\b",),
        "several": (r"\b(?:diverse|due|tre|quattro|piu|varie)\b.{0,30}\b(?:attivita|corrispond|risultati)",),
    },
    "pt": {
        "done": (
            (
                r"\b(?:adicionei|criei|exclui|apaguei|removi|marquei|conclui|atualizei|alterei|salvei|anotei|"
                r"coloquei|mudei)\b|\b(?:foi|foram)\b.{0,20}\b(?:adicionad|criad|exclui|removid|marcad|"
                r"concluid|atualizad|apagad)"
            ),
            (
                r"^\W*(?:pronto|feito|tarefa (?:adicionada|criada|concluida|excluida|atualizada)|"
                r"adicionad[oa])\b"
            ),
        ),
        "listing": (
            (
                r"\b(?:aqui (?:esta|estao)|estas sao)\b|"
                r"\bvoce (?:nao )?tem (?:\w+ ){0,3}tarefas?\b(?! (?:chamad|com|que))|"
                r"\blista esta (?:\w+ )?vazia\b"
            ),
        ),
        "missing": (
            (
                r"\bnao\b.{0,25}\b(?:encontr\w+|vejo|existe|ach\w+|localiz\w+)\b|\bnenhuma tarefa (?:chamada|"
                r"com|que|qqq)"
            ),
        ),
        "failed": (
            (
                r"\bnao (?:consegui|pude|foi possivel)\b|\berro\b|\bum problema\b|\bja (?:foi|esta|nao)\b|"
                r"\bno momento\b|\bdeu errado\b|\btente novamente"
            ),
        ),
        "refuse": (
            (
                r"\b(?:fui|sou) (?:feit|criad|projetad|program)\w* (?:apenas|so|somente)\b|"
                r"\bnao (?:te |lhe |o )?(?:posso|consigo|poderia|devo)\b|\bnao (?:tenho|disponho de) (?:acesso|"
                r"a capacidade|como|informac|permiss)|\bnao (?:sou capaz|estou autorizad|fui (?:projetad|criad|"
                r"feit)|estou apto)|\b(?:so|somente|apenas) (?:posso|consigo|ajudo|sou)|"
                r"\bposso .{0,30}\b(?:apenas|so|somente|exclusivamente)\b|\bfora d[oaes]|\balem d[oae]|"
                r"\bnao e possivel\b|\bsou (?:apenas|so|somente)\b|\bnao faz parte"
            ),
        ),
        "lost": (
            (
                r"\bnao (?:tenho (?:muita )?certeza|entendi|compreendi|ficou claro|sei (?:qual|o que|se))|"
                r"\bmais (?:informacoes|detalhes|contexto)\b|\bambigu"
            ),
        ),
        "filler": (
            (
                r"^(?:\W|\b(?:ok|claro|certo|com certeza|entendi|entendido|desculpe|sinto muito|sim|perfeito|"
                r"sem problemas?|tudo bem|hm+|qqq)\b)*$|\bvoce (?:escreveu|disse|mencionou)|\bvejo que\b"
            ),
        ),
        "greeting": (
            (
                r"^\W*(?:ola|oi|bom dia|boa (?:tarde|noite)|bem-?vind|de nada|por nada|imagina|disponha|prazer|"
                r"estou bem|tudo (?:bem|otimo)|fico feliz|que bom|parabens|tchau|ate (?:logo|mais)|tenha)|"
                r"\bsou (?:o )?seu assistente"
            ),
        ),
        "offer": (
            (
                r"\b(?:como|em que|no que) (?:posso|eu posso)\b|\bo que posso fazer\b|\bposso (?:ajudar|"
                r"ajuda-lo|fazer) (?:\w+ ){0,3}(?:mais|algo|outra)|\bmais alguma coisa\b|\balgo mais\b|"
                r"\bprecisa de (?:mais )?(?:algo|ajuda|alguma)\b|\bcomo (?:voce esta|vai)\b|\be voce\b|"
                r"\b(?:gostaria de|quer|deseja) (?:que eu )?(?:\w+ ){0,3}(?:alguma|outra|uma (?:nova )?tarefa|"
                r"ver|mais|algo)\b|\bo que (?:voce )?(?:gostaria de|quer) fazer hoje"
            ),
        ),
        "more": (r"\b(?:mais|outr[oa]s?|tambem|primeiro|alguma|proxim[oa]|em vez)\b",),
        "pick": (r"\bqua(?:l|is)\b(?!.{0,50}primeiro)",),
        "fill": (
            (
                r"\b(?:o que|que) (?:devo|deveria|deve|voce|gostaria|quer|seria|deseja)\b(?!.{0,25}hoje\b)|"
                r"\bcomo (?:devo|voce gostaria|voce quer|se chama|deve)|\bquando\b|\ba que horas\b|"
                r"\bsobre o que\b|\bdo que\b"
            ),
        ),
        "options": (r"\bqual d(?:as|elas|os)\b",),
        "details": (r"\b(?:nome|descricao|titulo|texto)\b",),
        "purpose": (r"\b(?:quer|gostaria de) (?:fazer|dizer)\b|\bquer que eu faca\b",),
        "choice": (r"\b(?:quer|gostaria|deseja|devo|prefere|e)\b.{0,120}\bou\b",),
        "fresh": (r"\b(?:adicionar|criar|fazer)\b",),
        "mean": (
            (
                r"\bvoce (?:quis|quer) dizer\b|\b(?:se refere|esta se referindo)\b|\b(?:pode|"
                r"poderia)\b.{0,12}(?:esclarec|especific|me dizer|dizer|dar|indicar|reformul|confirm|explic|"
                r"ser mais|fornec|detalh|repet|informar)|\btem certeza\b|\bou (?:algo|outra|prefere|quer|e|"
                r"buscar|modific|a|o|ver)\b|\bo que (?:voce )?(?:quer|gostaria|devo) (?:que eu )?(?:fac\w+|"
                r"fazer) com\b"
            ),
        ),
        "propose": (r"\b(?:quer|gostaria|deseja) que\b|\bdevo\b|\b(?:quer|deseja)\b",),
        "request": (
            (
                r"\bpor favor,? (?:\w+ ){0,2}?(?:diga|indique|especifique|esclareca|forneca|confirme|informe|"
                r"me diga|escolha)\w*|\b(?:me diga|diga-me|especifique)\b(?! se)"
            ),
        ),
        "invite": (r"\b(?:me avise|e so|nao hesite|avise)\b|^por exemplo\b",),
        "several": (
            (
                r"\b(?:varias|duas|tres|quatro|mais de uma|multiplas)\b.{0,30}\b(?:tarefas|correspond|"
                r"resultados)"
            ),
        ),
    },
    "ro": {
        "done": (r"\b(?:am (?:adaugat|sters|marcat|actualizat|eliminat)|gata)\b",),
        "refuse": (r"\bnu (?:va |te )?pot\b|\bpot (?:sa )?(?:te )?(?:ajut\w* )?doar\b|\bdoar cu\b",),
        "greeting": (r"^\W*(?:buna|salut|cu placere|bun venit)\b",),
        "offer": (r"\bcu ce (?:te |va )?pot\b|\bcum (?:te |va )?pot\b|\baltceva\b",),
        "mean": (r"\bte referi\b|\bpoti\b|\bvrei sa\b|\besti sigur",),
    },
}
