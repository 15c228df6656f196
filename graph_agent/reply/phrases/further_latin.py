"""How replies give themselves away in Finnish, Hungarian, Turkish, Indonesian and Vietnamese: the moves that matter most."""

from __future__ import annotations

from typing import Final

FUNCTION_WORDS: Final[dict[str, str]] = {
    "fi": ("mina sina ei on ja voin haluatko mita tehtava"),
    "hu": ("nem egy az hogy feladat es"),
    "tr": ("bir ve bu icin gorev gorevi misiniz var mi ne"),
    "id": ("yang saya anda untuk dengan tidak ada tugas apa ini"),
    "vi": ("ban toi co khong muon cho la viec"),
}

PHRASES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "fi": {
        "refuse": (r"\ben (?:valitettavasti )?(?:voi|pysty|osaa)\b|\bvoin (?:auttaa )?(?:vain|ainoastaan)",),
        "greeting": (r"^\W*(?:hei|moi|terve|huomenta|ole hyva)\b",),
        "offer": (r"\b(?:miten|kuinka) voin\b|\bmuuta\b",),
        "pick": (r"\bmika tehtava|\bmita tehtavaa|\bkumpi|\bkumman|\bminka tehtavan",),
        "mean": (r"\btarkoititko\b|\btarkoitatko\b|\bvoisitko\b|\bhaluatko\b",),
    },
    "hu": {
        "refuse": (r"\bnem tudok\b|\bcsak .{0,25}tudok\b",),
        "greeting": (r"^\W*(?:szia|hello|udv\w*|jo (?:napot|reggelt)|szivesen)\b",),
        "offer": (r"\b(?:miben|hogyan) segithetek\b|\bmeg valami\w*\b",),
        "pick": (r"\bmelyik\w*\b",),
    },
    "tr": {
        "done": (
            (
                r"\b(?:ekledim|eklendi|sildim|silindi|tamamlandı|isaretledim|isaretlendi|guncelledim|"
                r"guncellendi|tamam!|olusturdum)\b"
            ),
        ),
        "listing": (r"\biste (?:gorev|liste)|\bgorevleriniz|listeniz (?:su anda )?bos",),
        "missing": (r"\bbulamad|\bbulunamad|\bbulamıyor",),
        "failed": (r"\bbir (?:hata|sorun)\b|olustu",),
        "refuse": (
            (
                r"\b(?:yapamam|yardımcı olamam|olamıyorum|edemem|yapamıyorum|saglayamam|veremem|paylasamam|"
                r"erisimim yok|mumkun degil)\b|\b(?:sadece|yalnızca)\b.{0,40}\b(?:yardımcı olabil|gorev)"
            ),
        ),
        "lost": (r"\b(?:emin degilim|anlamadım|anlayamadım|net degil|daha fazla bilgi)\b",),
        "filler": (r"^(?:\W|\b(?:tamam|tabii|tabii ki|elbette|uzgunum|peki|evet|anladım|qqq)\b)*$",),
        "greeting": (r"^\W*(?:merhaba|selam|gunaydın|iyi (?:gunler|aksamlar)|hos geldin\w*|rica ederim)\b",),
        "offer": (
            (
                r"\bnasıl yardımcı\b|\bnasıl yardım\b|\bne yapabilirim\b|\bbaska bir\b|\bbaska (?:ne|yapma)|"
                r"\bnasılsın"
            ),
        ),
        "pick": (r"\bhangi\w*\b",),
        "fill": (r"\bne (?:eklemek|olsun|olmalı|yazmalı|demek|ekleme)|\bneyi\b|\bne zaman\b|\badı ne\b",),
        "mean": (
            (
                r"\b(?:mi|mı|mu|mü) (?:demek|kastettin)|\bkastettin|\bister misin|\bistiyor mus|\bemin misin|"
                r"\byoksa\b|\bmisiniz\b|\bmısınız\b|\bmısın\b"
            ),
        ),
        "request": (r"\blutfen\b.{0,40}\b(?:belirtin|soyleyin|secin|belirt|acıklayın|yazın)\b",),
    },
    "id": {
        "done": (
            (
                r"\b(?:telah|sudah|berhasil) (?:saya )?(?:di)?(?:tambahkan|hapus|tandai|perbarui|ubah|"
                r"menambahkan|menghapus)"
            ),
        ),
        "listing": (r"\bberikut (?:adalah )?(?:daftar|tugas)|daftar (?:tugas )?(?:anda )?kosong",),
        "missing": (r"\btidak (?:dapat |bisa )?(?:menemukan|ditemukan)",),
        "refuse": (r"\btidak (?:bisa|dapat|memiliki akses)\b|\bhanya (?:bisa|dapat|membantu)\b|\bdi luar\b",),
        "lost": (r"\b(?:tidak|kurang) (?:yakin|mengerti|paham|jelas)\b",),
        "greeting": (r"^\W*(?:halo|hai|selamat|sama-sama|senang)\b",),
        "offer": (
            (
                r"\bada (?:yang )?(?:lain|bisa)|\bapa (?:lagi )?yang (?:bisa|dapat) (?:saya )?bantu|"
                r"\bbagaimana (?:saya )?(?:bisa|dapat)|\blagi\b"
            ),
        ),
        "pick": (r"\b(?:yang )?mana\b",),
        "fill": (r"\bapa yang (?:ingin|harus|perlu)(?! saya bantu)|\bkapan\b",),
        "mean": (
            (
                r"\bmaksud\b|\bapakah anda (?:ingin|yakin)|\bbisa(?:kah)? (?:anda )?(?:jelaskan|sebutkan|"
                r"memberi)"
            ),
        ),
    },
    "vi": {
        "done": (r"\bđa (?:them|xoa|đanh dau|cap nhat|hoan thanh)",),
        "listing": (r"\bđay la (?:danh sach|cac)",),
        "refuse": (r"\b(?:khong the|chi co the)\b|\bngoai (?:pham vi|kha nang)",),
        "greeting": (r"^\W*(?:xin chao|chao|khong co gi|rat vui)\b",),
        "offer": (r"\b(?:toi|minh|em) co the (?:giup|lam) gi\b|\bgi khac\b|\bgi nua\b",),
        "mean": (r"\by (?:ban|anh|chi) la\b|\bban co (?:muon|chac)|\bban muon\b",),
    },
}
