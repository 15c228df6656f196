"""How replies give themselves away in English."""

from __future__ import annotations

from typing import Final

_DEED: Final = (
    r"(?:added|created|saved|completed|marked|updated|changed|renamed|edited|corrected|fixed|"
    r"deleted|removed|crossed|checked|"
    r"ticked|cleared|finished|jotted|recorded|reworded|replaced|revised|cancell?ed|kept|left)"
)
_TASK: Final = r"(?:tasks?|to-?dos?|items?|things?|entr(?:y|ies)|reminders?|errands?)"
_SOME: Final = (
    r"(?:two|three|four|five|six|several|multiple|a few|few|a couple(?: of)?|more than one|many|various|both|different|"
    r"[2-9]|1\d)"
)
_SELF: Final = r"(?:i|we|this (?:assistant|bot|app|service|tool))"

FUNCTION_WORDS: Final[dict[str, str]] = {
    "en": (
        "the you your i is are to of it that this would like can do not what which have and a me "
        "my in for on with am any anything task tasks list added"
    ),
}

PHRASES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "en": {
        "done": (
            (
                rf"\b(?:i|we) (?:have |just |already |also |went ahead and |successfully |now |only |"
                rf"both ){{0,4}}(?:been able to )?{_DEED}\b"
            ),
            (
                rf"^(?:\W|\b(?:ok|okay|great|perfect|got it|sure|sure thing|alright|all right|you got it|"
                rf"absolutely|of course|certainly|no problem|both|all|just|successfully|task|tasks|nice|and|"
                rf"qqq)\b)*{_DEED}\b(?! by| tasks?\b[^:]{{0,30}}(?:cannot|are|is))"
            ),
            (
                rf"\b(?:has|have|was|were|is|are) (?:(?:now|been|already|also|successfully|both|all|"
                rf"just) ){{0,4}}{_DEED}\b"
            ),
            (
                r"^(?:\W|\b(?:ok|okay|great|perfect|alright|and|it is|that is|all|"
                r"you are all)\b)*(?:all )?(?:done|set)\b(?:\s*[^\w\s]|\s*$| and\b| with\b| i )"
            ),
            r"\bconsider it done\b|(?:^|and |,) ?it is done\b|\ball set\b|\bis (?:now|all) done\b|\bqqq is done\b",
            (
                r"\b(?:is|are) (?:now |back |all |already |still )*(?:on|off|in) (?:your|"
                r"the) (?:\w+ ){0,2}lists?\b|\bis (?:now )?(?:complete|gone|no longer on)\b"
            ),
            (
                r"\bi (?:have )?(?:put|set|made) (?:it|that|this|them|qqq|the \w+|your \w+)\b|\bcrossed off\b|"
                r"\bnow reads\b|\bi will (?:not (?:delete|remove|change|add|touch|update|complete|mark|"
                r"do anything)|(?:leave|keep) (?:it|that|this|them|qqq|everything|the|your|things|all|"
                r"both))\b(?! (?:all|every|multiple|more|anything that))|\bnothing (?:was|"
                r"has been|has) (?:changed|deleted|removed|done)\b"
            ),
        ),
        "listing": (
            r"\bhere (?:is|are)\b|\bthese are\b",
            r"\bit is (?:still |currently |already |now )?(?:pending|open|not done|in progress)\b",
            (
                rf"\byou (?:(?:currently|still|now|only|also|already|do) )*(?:have|"
                rf"have got)(?: got)?(?: not)? (?:[\w-]+ ){{0,4}}{_TASK}\b(?!.{{0,30}}(?:\bcould|\bmatch|"
                rf"\bwith\b|\bcalled|\bnamed|\bmention|\bcontain|\babout|\bthat|\bsimilar|\blike|\bby that))"
            ),
            (
                r"\b(?:your|the) (?:[\w-]+ )?list (?:now )?(?:has|contains|includes|shows) (?!several|multiple|"
                r"more than|two|both)|"
                r"\b(?:your|the|this) (?:[\w-]+ ){0,3}lists? (?:is|looks) (?:[\w-]+ ){0,2}(?:empty|clear|"
                r"clean)\b|\bnothing (?:left )?(?:on|in) (?:your|the)|\ball caught up\b"
            ),
            (
                r"^(?:\W|sure|okay|ok)*(?:(?:your|pending|open|completed|current|active|all|the|to-?do|task|"
                r"today) )+(?:tasks?|list|to-?dos?|items?)\W*(?:\(\d+\))?\W*(?:are|is)?\W*:?$"
            ),
            (
                r"\bthere (?:is|are)(?: currently)? (?:no|nothing|not any)\b|"
                r"\bdo not have any\b(?!.{0,60}(?:called|named|match|by that|like that|qqq|with))|"
                r"\bno (?:pending|open|completed|active) (?:tasks|items|to-?dos)\b"
            ),
            r"\bon your list(?: right now| today| at the moment)?\W*:",
        ),
        "missing": (
            (
                r"\b(?:cannot|could not|did not|do not|was not able to|am not able to|am unable to|"
                r"was unable to|unable to) (?:seem to |currently |actually )?(?:find|see|locate|spot|match)\b"
                r"(?! (?:anyone|someone|somebody|other (?:people|user)|another (?:person|user)))"
            ),
            (
                rf"\b(?:no|not any|not a|not have an?y?) (?:[\w-]+ ){{0,2}}{_TASK} (?:on your list )?(?:called|"
                rf"named|titled|matching|with|that|like|by that|about|for|qqq)"
            ),
            (
                r"\b(?:does not|do not) (?:seem to |appear to )?(?:exist|have (?:a|any) (?:\w+ )?(?:task|item)|"
                r"match)|\b(?:not|nothing|no match|no matches|none)\b.{0,20}\b(?:found|match(?:es|ing)?|"
                r"on your list)\b|\bno match"
            ),
        ),
        "failed": (
            (
                r"\b(?:could not|was not able to|were not able to|was unable to|were unable to|"
                r"did not manage to|failed to)\b"
            ),
            (
                r"\b(?:because|since|as|—|;|:) .{0,60}(?:\b(?:no longer|already|does not|did not|not exist|"
                r"not find|not found|error|problem|issue|missing|too long|over the)\b)|"
                r"\balready (?:been )?(?:completed|done|deleted|removed|complete|marked)\b|"
                r"\bno longer (?:exists?|there|on)\b"
            ),
            (
                r"\b(?:went wrong|an error|having trouble|ran into|technical|hiccup|glitch|temporar\w+|"
                r"right now|at the moment|try again|unavailable|did not go through|was not saved|timed out|"
                r"currently unable to (?:reach|access|connect|load)|connection)\b"
            ),
            (
                r"\b(?:cannot|unable to|not able to) (?:reach|connect|load|retrieve|be (?:sure|certain)|"
                r"confirm|verify)\b"
            ),
        ),
        "refuse": (
            (
                rf"\b{_SELF} (?:(?:really|simply|also|just|currently|unfortunately|sadly|personally|still|"
                rf"am sorry but|do) )*(?:cannot|could not possibly|may not|will not be able|will not|"
                rf"would rather not|would prefer not|must decline|decline)\b(?! do (?:anything|much|"
                rf"more) (?:else|more|beyond)| recommend (?:it|that|this) enough| (?:wait|thank|remember|"
                rf"imagine|promise|stress|believe|complain|say no))"
            ),
            (
                rf"\b{_SELF} (?:am|are|is) (?:(?:also|currently|unfortunately|afraid|really|just|simply|"
                rf"sorry but|still) )*(?:unable|not (?:currently |really |actually )?(?:able|allowed|permitted|"
                rf"designed|built|programmed|equipped|set up|meant|authori[sz]ed|qualified|trained|capable|"
                rf"comfortable|going to|here to|intended|connected|in a position|the (?:right|best)|"
                rf"a (?!person|human|robot|machine|real|morning)\w+))\b"
            ),
            (
                r"(?:^|\b(?:sorry|afraid|unfortunately|apologies|but|and|so)\b[,:; ]*)(?:cannot|unable to|"
                r"not able to|no can do)\b"
            ),
            (
                rf"\b{_SELF} (?:can |am able to |do |could )?(?:only|solely|exclusively|just) (?:able |here |"
                rf"allowed |set up )?(?:to )?(?:help|assist|handle|deal|know|work|support|manage|do|answer|"
                rf"have access|see|access|delete|remove|change|update|complete|talk|look)\b"
            ),
            (
                rf"\b{_SELF} (?:can|am able to) (?:help|assist|work|deal|answer|manage|handle|support|view|"
                rf"access|show)\b.{{0,40}}\b(?:only|exclusively|solely)\b|\bi am only\b|\b(?:tasks?|lists?|"
                rf"to-?dos?|here to help|management) only\b"
            ),
            (
                rf"\b{_SELF} (?:am|is) (?:only|merely|strictly|solely|exclusively|specifically|purely) (?:an? |your |able |"
                rf"designed|built|made|meant|set up|equipped|trained|programmed|focused|for |intended|allowed)|"
                rf"\b{_SELF} (?:am|is) (?:just|simply) (?:an? |your )(?:humble |simple |little )?(?:task|to-?do|list)"
            ),
            (
                rf"\b{_SELF} (?:am|is|was) (?:\w+ )?(?:designed|built|made|meant|set up|equipped|trained|"
                rf"programmed|focused|intended|limited|restricted|dedicated|created) (?:\w+ )?(?:only|just|"
                rf"solely|exclusively|purely|strictly)\b|\b{_SELF} (?:am|is) (?:limited|restricted|confined) to\b|"
                rf"\b(?:am|is) (?:designed|built|made|meant|set up|trained|here|programmed|"
                rf"focused)\b.{{0,60}}\btasks?\b.{{0,30}}"
                rf"(?:\b(?:so|not|rather|cannot)\b)|"
                rf"\b(?:i|my|me|we)\b.{{0,40}}\b(?:only|solely|exclusively|strictly)\b (?!found|see|have|added|completed|"
                rf"removed|deleted|marked|changed|one|two).{{0,40}}\b(?:tasks?|to-?dos?|lists?)\b"
            ),
            (
                r"\b(?:outside|beyond|not (?:within|in|part of)|out of|falls outside)\b(?: of)? (?:my |"
                r"the scope|what i|scope|the range|the things i|of what|your own|what this)"
            ),
            (
                r"\bnot (?:something|a thing|anything|one of the things|in my)\b.{0,30}\b(?:i (?:can|am|do|"
                r"could|have)|i would be|wheelhouse)|\bnot (?:my (?:area|field|forte|strong|specialty|"
                r"department|thing|job|place|role|scope|lane|alley)|for me to|up my alley|really my|quite my|"
                r"part of what i)|"
                r"\babove my pay\b|\bleave that to\b|\bout of my\b"
            ),
            (
                rf"\b{_SELF} (?:do|does) not (?:(?:currently|actually|really|yet) )*(?:offer|support|provide|"
                rf"handle|do|give|deal with|discuss|know (?:how to|anything about|much about|the answer)|share|"
                rf"cover)\b|\band (?:do|does) not know the answer\b"
            ),
            (
                r"\bi (?:have no|lack) (?:\w+ )?(?:information|knowledge|access|way|ability|means|tools?|"
                r"idea about|insight|"
                r"data|permission|authority)\b|\bdo not (?:think|believe) i (?:can|should)\b|\b(?:wish i could|"
                r"would love to"
                r"(?: help)?|would like to(?: help)?),? but\b|\boff[- ]limits\b|\boff the table\b|"
                r"\bnot (?:be )?appropriate\b|"
                r"\b(?:afraid|sorry),? (?:but )?(?:not|no)\b|\ball i (?:can )?do\b|\bis all i (?:can )?do\b|"
                r"\bonly thing i (?:can|do)\b|"
                r"\bmy only (?:job|task|purpose|role)\b|\bi (?:would|had) (?:better|rather|prefer) not\b|"
                r"\bi (?:prefer|try|have been "
                r"told|was told|am told) not to\b|\b(?:tasks|lists|to-?dos) are (?:all|the only)\b|"
                r"\bnothing i can do (?:about|for)\b|"
                r"\bi do not feel comfortable\b|\bi am (?:\w+ )?(?:limited|restricted|confined)\b|"
                r"\bgo(?:es)? beyond\b|\bnot what i am\b|"
                r"\b(?:irresponsible|inappropriate|unethical|forbidden|prevented from|prohibited|not meant for)\b|"
                r"\bbetter (?:off|served) (?:with|by|asking)\b|\byou cannot (?:\w+ )?(?:all|every|more than|several)\b"
            ),
            (
                r"\bdo not (?:\w+ )?have (?:any )?(?:\w+ )?(?:access|ability|capability|capabilities|"
                r"permission|authority|real-?time|weather|information about|way to|means to|tools? (?:for|to)|"
                r"option to)"
            ),
            (
                r"\b(?:is|are) not (?:currently |yet )?(?:supported|possible|allowed|permitted|an option|"
                r"available)\b(?! (?:right now|at the moment|currently|because))|\bno way (?:for me )?to\b|"
                r"\bno (?:undo|bulk)\b|\b(?:there is|have) no (?:feature|option|support|function|access|"
                r"ability|means)\b|\bnot (?:yet )?supported\b|\bnot possible (?:for me )?to\b|"
                r"\bdoes not (?:currently )?support\b"
            ),
            (
                r"\b(?:let us|try to|need to|have to|prefer to|going to|only) (?:stick|focus|keep|stay|"
                r"get back|concentrate)\b|\bi (?:specialize|specialise|focus|stick)\b|"
                r"\bmy (?:\w+ )?(?:expertise|capabilities|abilities|skills|role|purpose|scope|function|focus|"
                r"specialty|job|knowledge|area)\b.{0,20}\b(?:is|are|limited|only|does|do|lies)\b"
            ),
            (
                r"\b(?:have|need|going|must) to (?:\w+ )?(?:decline|refuse|pass|say no|draw the line)\b|"
                r"\bagainst (?:my|the) (?:rules|guidelines|policy|instructions)|\b(?:confidential|"
                r"keep (?:those|that|my|them) private)\b|\bi (?:respectfully |politely )?(?:decline|refuse|"
                r"must refuse)\b|\bi am (?:a|an|your|the) [^.]{0,50}\bnot (?:a|an|your)\b|\bi am (?:not|"
                r"no) (?:a |an )?(?:\w+ )?(?:doctor|lawyer|expert|advisor|chef|meteorologist|weather|general|"
                r"search|substitute|calculator|comedian|translator|chatbot)"
            ),
            (
                r"\b(?:is|are) not\b.{0,30}\bi can (?:help|do|share|assist|provide|offer|discuss|access|talk|"
                r"answer|reveal|change)"
            ),
        ),
        "redirect": (
            r"\b(?:can|could|happy to|glad to|love to|am here to) (?:\w+ ){0,2}(?:help|assist|add|manage|"
            r"create|keep|show|look)\b"
            r".{0,50}\b(?:tasks?|to-?dos?|lists?|qqq)\b|\b(?:task|anything|something)\b.{0,30}\bi can (?:help|add|do)\b|"
            r"\bhelp with (?:your|a|the) (?:tasks?|to-?dos?|lists?)\b|\b(?:stick|back) to\b",
        ),
        "aside": (
            r"\b(?:not|no|never|nothing|sorry|unfortunately|afraid|elsewhere|someone else|question for|"
            r"a matter for|leave)\b"
            r"(?! (?:problem|worries|need|know your))",
        ),
        "limit": (r"\b(?:empty|blank|without (?:a|knowing|more|any|the)|until (?:i|you)|unless you)\b",),
        "lost": (
            (
                r"\bdoes not (?:look|sound|seem) like\b|\bnot (?:(?:quite|really|entirely|completely|fully|"
                r"exactly|totally|\d+%|100%|too|altogether|"
                r"at all|so) )*(?:sure|certain|clear|following|understanding)\b(?! (?:about the (?:weather|"
                r"answer)|how (?:the|it)))"
            ),
            (
                r"\b(?:do|did) not (?:(?:quite|fully|really|entirely|seem to) )*(?:understand|follow|catch|"
                r"get (?:that|what|it)|recogni[sz]e|know (?:what|which|how you|whether|if you|who))\b|"
                r"\bcannot (?:quite )?(?:tell (?:which|what|who|if|whether|from|exactly)|tell\W*$|determine|"
                r"figure|make out|make sense of|understand|work out|know|be sure|say (?:which|what|for))\b"
            ),
            (
                r"\b(?:unclear|ambiguous|confused|vague|unsure|could mean|might mean|could refer|might refer|"
                r"could be (?:a few|several|one of|interpreted)|several ways|lost me|did not come through|"
                r"cut off|incomplete|having trouble understanding|what you mean|missing (?:some|a|the))\b|"
                r"\bneed (?:to know )?(?:a (?:little |bit |few )?|some )?(?:bit )?(?:more|further|"
                r"additional)\b|\bnot enough\b|\b(?:do not have|without) enough\b"
            ),
        ),
        "filler": (
            (
                r"^(?:\W|\b(?:ok|okay|sure|sure thing|of course|certainly|absolutely|got it|alright|all right|"
                r"great|no problem|yes|yep|yeah|right|understood|i see|hmm+|sorry|i am sorry|apologies|"
                r"i apologi[sz]e|oops|thanks|thank you|for that|for clarifying|sounds good|good idea|"
                r"happy to help|happy to|i would be happy to help|glad to|glad to help|i can help|"
                r"i can do that|i can help with that|i can help you with that|i can (?:definitely|"
                r"certainly) (?:do that|help with that)|no worries|perfect|one moment|let me help|let us do it|"
                r"let us|just to confirm|just to be (?:sure|clear)|to be clear|quick question|before i do that|"
                r"so|and|then|well|ah|oh|hm|with that|for you|for the confusion|please|qqq|there|add that|"
                r"a new task|new task|noted|i understand|gladly|it|that|the confusion)\b)*$"
            ),
            (
                r"\b(?:i can|i would be|i am) (?:\w+ ){0,2}(?:help|happy|glad|do that|add|create|delete|remove|"
                r"update|complete|mark|change|rename)\b|\bhappy to\b|\b(?:before i|to (?:add|create|delete|"
                r"remove|update|complete|mark|change|do that|make sure|help|get (?:this|it|that) right)|"
                r"so (?:that )?i can)\b"
            ),
            (
                r"\b(?:looks|seems|sounds|appears) like (?:you|there|that|qqq|this|a|it|we)|\b(?:you|"
                r"your message) (?:mentioned|said|wrote|sent|typed|asked|want|would like|just|provided|listed|"
                r"referred|named|have given|gave|entered|says|only)\b|\bi (?:see|notice|noticed|understand|"
                r"think|take it|assume|gather|saw|received|got|heard)\b|\bi found qqq|\b(?:qqq|that|this|"
                r"it) (?:could|can|may|might) (?:mean|be|refer)|\bjust qqq\b"
            ),
        ),
        "greeting": (
            (
                r"^\W*(?:hi|hello|hey|hiya|howdy|greetings|good (?:morning|afternoon|evening|day|night)|"
                r"welcome|nice to|great to (?:hear|see|meet)|good to (?:hear|see|know)|glad (?:to hear|you|"
                r"i could|that)|happy to hear|pleased to|you are (?:very |most |so )?welcome|you are all set|"
                r"no problem|my pleasure|any ?time|no worries|thank you for asking|thanks for asking|"
                r"happy (?:birthday|new|holidays)|congratulations|congrats|well done|great job|good job|have a|"
                r"goodbye|bye|see you|take care|cheers|sorry to hear|i am sorry to hear|sorry (?:you|that you)|"
                r"that sounds|sounds (?:like (?:a (?:great|fun|busy|nice|good|lovely|wonderful|plan|lot)|fun|"
                r"you (?:are|have) (?:having|had|got a lot))|great|fun|good|wonderful|lovely|exciting|tough|"
                r"stressful|delicious)|that is (?:great|wonderful|awesome|fantastic|exciting|good|lovely|nice|"
                r"amazing|tough)|wow|haha|ha|aw+|enjoy|good luck|how (?:nice|lovely|exciting)|i hope|hope)\b"
            ),
            (
                r"\bi am (?:doing |feeling )?(?:well|good|great|fine|here (?:to|for|and ready)|ready|"
                r"your (?:\w+ ){0,3}(?:assistant|helper)|an? (?:\w+ ){0,4}(?:assistant|helper))\b|"
                r"\bthanks? (?:you )?for (?:asking|checking)"
            ),
        ),
        "offer": (
            (
                r"\b(?:how|what) (?:else )?(?:can|may|could|might|shall|should) i (?:\w+ )?(?:help|assist|do|"
                r"be of)\b(?!.{0,30}(?:\bwith (?:the )?(?:qqq|it|this|that|them)\b|\bqqq))"
            ),
            (
                r"\bwhat (?:else )?(?:would|do) you (?:like|want|need) (?:help with|to (?:do|work on|tackle|"
                r"accomplish|get done|start|focus|achieve|plan|get))\b(?!.{0,15}(?:\bwith\b|\babout\b))|"
                r"\bwhat is (?:on your (?:mind|list|plate|agenda)|up|next|new|first)\b|\bwhat (?:do|"
                r"would) you (?:need|want|like)(?: today| now)?\W*$|\bwhat brings\b|\bis there something\b|"
                r"\bwhat (?:are|is) you(?:r)? (?:working on|up to|plans?)\b|\bwhat can i\b"
            ),
            (
                r"\banything (?:else|more|i can|you|on your|in particular)|\bany (?:other|more|questions|"
                r"further)\b|\bsomething (?:else|i can)\b|\bwhat else\b|\bwhat next\b|\bcan i (?:help|assist|"
                r"do)\b(?!.{0,30}\bqqq)|\bneed (?:any |some |my )?(?:help|assistance|anything)\b|\b(?:help|"
                r"assist) (?:you )?(?:with )?(?:any|some|further|more)"
            ),
            (
                r"\bhow (?:are you|is (?:your|it|everything|the)|was your|about you|have you|did (?:it|that|"
                r"your)|does that (?:sound|look))\b|\band you\b|\bhow are things\b|\bhow about (?:we|starting|"
                r"you)\b|\bdoes (?:that|this) (?:help|answer|make sense|work|sound|clear|look)\b|"
                r"\bsound good\b|\bmake sense\b|\bready to\b|\bshall we\b|\bisn.?t it\b|\bis not it\b|\bok\?|"
                r"\bokay\?|\bis there (?:a|any|some)|\bwhy not\b|\bwho knows\b|\bdid you know\b|\bcare to\b|"
                r"\bwhere (?:would|should|shall|do) (?:you like to|we|i|you want to) (?:start|begin)\b"
            ),
            (
                r"^(?:(?!\b(?:what|which|who|when|where|how|could you|"
                r"can you)\b).){0,120}?(?:\b(?:would you like|do you want|shall we)|^\W*(?:want|like|"
                r"interested|care|wish|need|sure|ok|okay)) (?:to (?:add|see|create|review|start|view|know|hear|"
                r"try|manage|make|work|check|go over|look|get|set|tackle|plan|put|continue|do|take)|help|"
                r"some help|a hand|tips|suggestions|more|another)\b(?!.{0,40}qqq)"
            ),
            (
                r"^(?:(?!\b(?:what|which|who|when|where|how|could you|"
                r"can you)\b).){0,120}?(?:\b(?:would you like|do you want|should i|shall i|can i|may i)|"
                r"^\W*(?:want|like|should we)) (?:me )?(?:to )?(?:(?!qqq)\w+ ){1,3}(?:any\w*|another|one of|"
                r"some\w*|more|a (?:new )?task\b(?! (?:to|for|called|about|named|with|qqq))|one\b|the (?:list|"
                r"rest|others)|your (?:list|tasks)|others?)\b|\bhelp (?:you )?(?:with|manage|organi[sz]e|"
                r"prioriti[sz]e|break|plan|get)\b(?!.{0,30}\bqqq)"
            ),
        ),
        "more": (
            (
                r"\b(?:else|next|another|more|other|others|additional|too|as well|also|further|first|anything|"
                r"any of|any|one of|some of|again|instead)\b"
            ),
        ),
        "pick": (
            (
                rf"\bwhich\b(?!.{{0,80}}\b(?:first|next|tackle|start with|work on|focus on|priorit)\b)|"
                rf"\bwhich (?:{_TASK}|ones?) (?:do|did|would|should|is|are)\b.{{0,60}}\b(?:mean|delete|remove|"
                rf"mark|update|change|complete|rename|refer)"
            ),
            (
                r"\bwhat one\b|\bthe first or\b|\b(?:this|that) one or\b|\bthe one (?:about|with|for|called|"
                r"named|from)\b.{0,60}\bor\b|\b(?:all|both) of (?:them|these)\b.{0,30}\bor\b|\bor (?:all|"
                r"both)\b"
            ),
        ),
        "fill": (
            (
                r"\bwhat (?:exactly |specifically |new |kind of |sort of |else )*(?:should|shall|would|do|does|"
                r"did|is|are|can|task|tasks|item|text|description|title|name|details|time|date|day|new|"
                r"changes?|to)\b.{0,70}\b(?:task|item|it|this|that|description|title|name|called|say|read|add|"
                r"added|remind|reminded|reminder|note|change|changed|update|updated|rename|renamed|edit|delete|"
                r"deleted|remove|removed|complete|completed|mark|marked|list|to-?dos?|wording|put|text|them|"
                r"create|named|like to (?:call|include)|include|be|done|referring|mean|looking for|finish|"
                r"cross|check|save)\b"
            ),
            (
                r"\bwhat (?:is|are) (?:the|your) (?:\w+ ){0,3}(?:task|name|title|description|text|details|"
                r"wording|item|change|todo|to-?do|reminder)\b|\b(?:what|who|when|where|what time|"
                r"what day)\b.{0,50}\b(?:remind(?:ed|er)?|due|deadline)\b|\bremind you (?:about|of|"
                r"to do) what\b|\b(?:add|change|rename|update|delete|remove|complete|mark|create) (?:it |"
                r"that )?(?:what|to what)\b|\bhow (?:should|would|do|shall) (?:i|you|we|it) (?:\w+ )?(?:like |"
                r"want )?(?:me )?(?:to )?(?:word|phrase|name|call|describe|change|update|rename|rephrase|"
                r"title)\b"
            ),
        ),
        "options": (
            (
                r"\b1[.)] .{1,200}\b2[.)] |\b(?:one of|of) (?:these|those|them|the (?:two|three))\b|"
                r": .{1,200}\bor\b|\bthe first or\b|\bwhich (?:one|of)\b"
            ),
        ),
        "details": (
            (
                r"\b(?:name|description|title|details?|wording|text|id|content)\b|\bwhat (?:the|it|to|"
                r"you would like to (?:add|call)|task)\b|\b(?:what|which) (?:it|task) (?:should|is)\b|"
                r"\bthe task is\b"
            ),
        ),
        "purpose": (
            (
                r"\bwhat (?:do|did) you mean\b|\b(?:like|want|need) me to do\b|\bwhat (?:exactly )?(?:should|"
                r"shall|can) i do\b|\bto do with\b"
            ),
        ),
        "choice": (
            r"\b(?:did|do) you (?:\w+ )?mean\b",
            (
                r"\b(?:do|would|should|shall|is|are|did|want|was) .{0,160}\bor\b(?! (?:anything|any other|"
                r"something else i can|if|more\b|so\b))"
            ),
        ),
        "fresh": (r"\b(?:add|create|do|start|put|get done|begin)\b(?! with)",),
        "mean": (
            (
                r"\b(?:did|do) you (?:perhaps |maybe |actually )?mean\b|\bwhat (?:do|did) you mean\b|"
                r"\bwhat would you like (?:me )?to do (?:with|about)\b|\bwhat (?:should|shall|can|"
                r"would you like me to|do you want me to|do you need me to) (?:i )?do\b(?! (?:for you|next))|"
                r"\bwhat (?:would|do) you (?:like|want|need) me to\b|\bis (?:this|that) something\b|"
                r"\bare you (?:sure|certain|trying|looking|asking|referring|talking|saying|wanting|hoping|"
                r"requesting|telling|thinking)\b|\bis (?:this|that|it) (?:a|an|something|correct|right|what|"
                r"the (?:task|one)|for)\b|\bis (?:this|that) (?:\w+ )?task\b|\bwere you\b|"
                r"\bor (?:something else|did you|do you|are you|is (?:it|this|that)|just|would you|would it)\b|"
                r"\bhow (?:can|may|should) i help (?:you )?with\b|\bwhat are you\b|\bshould (?:this|that|it|"
                r"these|they|qqq) be\b|\bas (?:one|a single|separate|two|three)\b.{0,30}\bor\b"
            ),
            (
                r"\b(?:could|can|would|will|might) you (?:please |kindly |maybe |perhaps |possibly |"
                r"just )*(?:tell|clarify|specify|provide|give|be (?:a (?:bit|little) )?(?:more|clearer|"
                r"specific)|rephrase|elaborate|confirm|let me know|explain|describe|say|repeat|remind me|"
                r"narrow|choose|pick|select|try (?:again|rephrasing)|share|expand|point|reword|spell)\b|"
                r"\b(?:mind|care to) (?:clarif|tell|specif|rephras|elaborat|giv|provid|shar|explain|"
                r"confirm)\w*"
            ),
        ),
        "propose": (
            (
                r"\b(?:should|shall|may|can|could) i\b(?! (?:help|assist|be))|\b(?:would you like|do you want|"
                r"did you want|want|would you prefer|are you asking|do you need|is it okay for) (?:me |"
                r"for me )?to\b|\bdo you want (?:this|that|it|these)\b|\bwould you (?:like|prefer)\b|"
                r"\b(?:correct|right|yes|proceed|confirm|go ahead)\s*\?"
            ),
        ),
        "request": (
            (
                r"\b(?:please|kindly|just) (?:\w+ ){0,2}?(?:tell|specify|clarify|provide|give|choose|pick|"
                r"select|confirm|rephrase|be (?:more|specific)|share|indicate|reply|respond|enter|type|"
                r"describe|say|state|explain|elaborate|include|let me know (?:which|what|whether|how|the|who|"
                r"when|exactly|more))\b(?! (?:the word|it a|if|me (?:if|what you need|"
                r"what you would like to do|how i can)|me its))"
            ),
            (
                r"\blet me know (?:which|exactly|what (?:the|you (?:would like|want) (?:me to|it|to (?:add|"
                r"call|change|name|do with)|the)|to|it should|task|exactly|specif|should|name)|whether|"
                r"the (?:name|details|description|exact|new|task)|how you (?:would|want)|more)\b|^(?:tell|"
                r"give) me (?:which|what|more|the|a (?:bit|little))\b|\bi (?:will |would |just |"
                r"still )*need (?:to know|two things|three things|a couple|one (?:more )?thing|you to|a (?:bit|"
                r"little|few|task|description|name|title)|more|some|additional|the|your|to confirm)\b|"
                r"\b(?:which one|what to add|is it|did you mean|do you mean)\s*[.:]?$|^which (?:one|task|of)\b"
            ),
        ),
        "invite": (
            (
                r"\b(?:let me know|tell me|just (?:ask|say)|feel free|do not hesitate) (?:if|whenever|when|how|"
                r"any|to|what else|what you would like|what you need|what is|the word)\b|\b(?:let me know|"
                r"feel free|just ask|just say (?:the word|yes|so)|i am here)\b|^(?:for example|e\.g|such as|"
                r"i\.e|thanks?|thank you)\b|\b(?:i will|i can then|then i)\b|^or\b|\bin the meantime\b|"
                r"\breply (?:with )?(?:yes|no|qqq)"
            ),
        ),
        "howto": (
            (
                r"^(?:to|if you (?:want|would like) to|whenever you|when you) .{0,60}\b(?:just|simply|"
                r"you can)\b|\bwhenever you\b|\bsay something like\b|\b(?:just|you can) say qqq"
            ),
        ),
        "several": (
            (
                rf"\b{_SOME} (?:[\w-]+ ){{0,3}}?(?:{_TASK}|matches|ones|options|results|possibilities|"
                rf"possible)\b(?=.{{0,60}}\b(?:match|named|called|with|mention|contain|that|about|similar|like|"
                rf"related|fit|could|found|for|include|qqq|starting|by that|refer))|\b(?:found|see|have|are|got|"
                rf"exist|there is) (?:\w+ )?{_SOME}\b.{{0,40}}\b(?:match|that|with|named|called|similar|qqq|fit|"
                rf"of (?:them|those)|related|about|like)|\bmore than one\b|\bmultiple match|\bseveral match|"
                rf"\bsame (?:name|description|title)\b|\b(?:two|three|several|multiple|few|"
                rf"couple)\b.{{0,30}}\b(?:match|similar)"
            ),
        ),
    },
}
