"""Whole messages that are part of every conversation and ask for nothing on the list."""

from __future__ import annotations

import re

from graph_agent.rules_model.intents import Chat

MAX_LENGTH = 120
_GREETING = (
    r"(?:hi+|hello+|hey+|hiya|howdy|yo|greetings|good (?:morning|afternoon|evening|day)|morning|evening|hola|sup"
    r"|what is up|whats up|wassup)"
)
_ADDRESS = r"(?: (?:there|again|ai|assistant|bot|buddy|friend|everyone|you|agent|robot|computer|man|dude|pal|mate|sir|all))?"
_OPENING = re.compile(rf"(?:{_GREETING}{_ADDRESS}|why|okay|well|oh|so|ai|and|please|um)(?: [,.!])*(?: |$)")
_ENDING = r"(?: [,.!?]| please| today| now| then| ai| exactly| assistant| again| for me)*"
_HOW = (
    r"(?:how (?:are|is|have) (?:you|it|things|everything|your day|life|you been)(?: (?:doing|going|today|feeling"
    r"|been|this morning|tonight|so far|lately|right now))*|how do you do|are you (?:okay|well|good|alright)"
    r"|how (?:are )?you doing(?: today)?)"
)

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(rf"(?:{pattern}){_ENDING}"))
    for kind, pattern in (
        ("greeting", rf"{_GREETING}{_ADDRESS}|(?:nice|good|great) to (?:meet|see) you"),
        ("how_are_you", _HOW),
        (
            "capabilities",
            r"(?:can you )?(?:tell me |show me |explain |let me know |i want to know "
            r"|i would like to know )?(?:what|which) (?:all |else |things? |stuff |kinds? of (?:things?|stuff|tasks"
            r"|questions) |sorts? of (?:things?|stuff) |type of (?:things?|stuff) |tasks? |exactly |questions "
            r"|other things )*"
            r"(?:can|could|do|are|would|should|may|will) (?:you|i|u)(?: (?:able to|ask|do|help|me|with|for|you|to"
            r"|know|offer|capable of|doing|say|good at|use|about|here|handle|perform|assist|help me with))*"
            r"|help|help me|i need help|i need (?:some |your )?(?:help|assistance)|can you help(?: me)?|how (?:can"
            r"|do|could) you help(?: me)?(?: out)?|how (?:does|do) (?:this|you|it) work|how (?:can|do"
            r"|should) i use (?:you|this)|what is this|what are your (?:features|capabilities|functions|skills"
            r"|abilities)|what (?:are you )?capable of|commands|menu|what are my options"
            r"|how (?:do|can|could|would|should) i (?:add|create|make|delete|remove|complete|finish|change|rename"
            r"|edit|update|list|see|show|set|mark)\b.*|what is an? (?:new )?(?:task|reminder|chore|list|to ?do|(?:to ?do"
            r"|task) list)"
            r"|(?:how many|what (?:kinds?|sorts?|types?) of|which|what) (?:reminders|tasks|lists) can you (?:set|make|do"
            r"|keep|create|handle)"
            r"|what are your (?:tasks|duties)|(?:how|why) (?:do|does|should|would) (?:an? |any )?(?:reminders?|tasks?"
            r"|(?:to ?do |task )?lists?)"
            r" (?:work|help|exist|matter)|do you (?:do|have|make|keep|support) (?:reminders|tasks|lists)"
            r"|what (?:can you|are you able to|could you) remind (?:me|people) (?:of|about)",
        ),
        (
            "identity",
            r"(?:who|what) are you|(?:tell me |what is )?(?:your )?name|what (?:is|are) you called|what (?:should"
            r"|can|do) i call you|are you (?:a |an |real |just a |really a )?(?:ai|bot|robot|human|person|real"
            r"|computer|machine|real person)|who (?:made|created|built|developed) you|tell me about yourself"
            r"|introduce yourself",
        ),
        (
            "joke",
            r"(?:(?:can|could|will) you )?(?:(?:please )?(?:tell|give|share)(?: me| us)?(?: with me)? )?(?:a "
            r"|another |some |any |your best |one more )?(?:good |funny |short |silly )?jokes?|make me laugh"
            r"|(?:do you )?know (?:any|a|some) (?:good )?jokes?|say something funny|tell me something funny",
        ),
        (
            "thanks",
            r"(?:many |great |awesome |perfect |cool |okay |great )?(?:thanks?|thank you|thankyou|cheers"
            r"|much appreciated|i appreciate (?:it|that|your help|this))(?: (?:so much|a lot|you|very much"
            r"|a million|a bunch|again|for (?:(?:the|that|your|a) (?:reminders?|tip|info|update)|reminding (?:me|us)"
            r"|(?:telling|showing) me|that|your help|the help|everything|helping|all your help)|man|buddy"
            r"|much|loads))*|i appreciate your help ,? ?thank you",
        ),
        (
            "goodbye",
            r"(?:good ?bye|bye+|bye bye|see (?:you|ya)(?: (?:later|soon|around|tomorrow))?|later|good night"
            r"|goodnight|take care|have a (?:good|nice|great) (?:day|one|night|evening|weekend)|farewell|adios|ciao"
            r"|talk to you (?:later|soon)|that is all(?: for (?:now|today))?|that will be all"
            r"|i am done(?: for today| for now)?|i (?:have|got) to go)",
        ),
        (
            "praise",
            r"(?:that is |you are |this is |it is )?(?:so |very |really |just )?(?:nice|great|awesome|cool|perfect"
            r"|excellent|good|amazing|wonderful|brilliant|fantastic|lovely|super|well done|good job|great job"
            r"|nice work|good work|love it|i love it|the best|lol|haha+|wow|sweet|neat)(?: (?:nice|great|excellent"
            r"|job|work|one))*",
        ),
        (
            "yes",
            r"(?:yes|yeah|yep|yup|ya|sure|okay|alright|all right|right|correct|fine|confirm|confirmed|of course"
            r"|absolutely|definitely|go ahead|do it|please do|sounds good|go for it|affirmative|exactly|sure thing"
            r"|why not|got it)(?: (?:yes|yeah|please|do it|go ahead|sure|do|delete it|that is right|correct))*",
        ),
        (
            "no",
            r"(?:no|nope|nah|no thanks|no thank you|not now|never ?mind|cancel|cancel that|cancel it|forget it"
            r"|forget that|do not|do not do it|stop|leave it|no way|not really|nothing|none|nvm|abort|skip it"
            r"|neither|negative|no need|not yet)(?: (?:no|thanks|thank you|please|that|it|do not|cancel|mind))*",
        ),
        ("unsure", r"(?:maybe|perhaps|i am not sure|not sure|i do not know|idk|dunno|hmm+|who knows|possibly|i guess)"),
    )
)


def small_talk(text: str) -> Chat | None:
    """The kind of talk that `text` (a whole message in normal form) is; longer messages are none."""
    for _ in range(4):
        if len(text) > MAX_LENGTH:
            return None
        for kind, pattern in _KINDS:
            if pattern.fullmatch(text):
                return Chat(kind)
        opening = _OPENING.match(text)
        if not opening or opening.end() == len(text):
            return None
        text = text[opening.end() :]
    return None
